"""What a report says of each fault: the consequence with its numbers, and the proof from earlier lines."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.report.case import Account, Case
from milepost.conformance.report.inventory_reasons import inventory_account
from milepost.conformance.report.reads_reasons import READ_ACCOUNTS
from milepost.conformance.report.rule_reasons import RULE_ACCOUNTS

ACCOUNTS: dict[str, Callable[[Case], Account]] = {**READ_ACCOUNTS, **RULE_ACCOUNTS}
"""By fault code, where an answer showed the fault; what only an inventory shows is in `inventory_reasons`."""


def account_of(case: Case) -> Account:
    """Return the account of a case's fault."""
    account = inventory_account if case.white_box else ACCOUNTS.get(case.fault.code, inventory_account)
    return account(case)
