"""What a report says of each fault: the consequence with its numbers, and the proof from earlier lines."""

from __future__ import annotations

from collections.abc import Callable

from milepost.conformance.report.case import Account, Case
from milepost.conformance.report.layout import plain
from milepost.conformance.report.reads_reasons import READ_ACCOUNTS
from milepost.conformance.report.rule_reasons import RULE_ACCOUNTS

ACCOUNTS: dict[str, Callable[[Case], Account]] = {**READ_ACCOUNTS, **RULE_ACCOUNTS}
"""By fault code; a test holds the keys to the registry."""


def account_of(case: Case) -> Account:
    """Return the account of a case's fault."""
    return ACCOUNTS.get(case.fault.code, _unknown)(case)


def _unknown(case: Case) -> Account:
    detail = f": {plain(case.fault.detail)}" if case.fault.detail else ""
    return Account(f"{case.where} breaks a law that this report has no words for{detail}.", "")
