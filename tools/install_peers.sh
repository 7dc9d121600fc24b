#!/usr/bin/env bash
# Gives each engine that the kit judges an environment of its own under .peers/, and puts Milepost beside it.
# Usage: tools/install_peers.sh [PEER...]   (all of them when none is named; PYTHON names the interpreter)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

all_peers=(freetoken)
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1

# What an installed engine depends on; a stamp holds its digest, so that nothing is repeated and nothing stale is kept.
digest() { cat -- "$@" | cksum | tr ' ' -; }

fail() { # PEER WHAT
  echo "install_peers: $1: $2 (log: .peers/$1.log)" >&2
  exit 1
}

step() { # PEER WHAT COMMAND...
  local peer=$1 what=$2
  shift 2
  printf '\n== %s\n' "$what" >>".peers/$peer.log"
  "$@" >>".peers/$peer.log" 2>&1 || fail "$peer" "could not $what"
}

install_freetoken() {
  local peer=freetoken home=.peers/freetoken pins=tools/freetoken-constraints.txt
  local pip=("$home/bin/python" -m pip install --quiet --constraint "$pins")
  local wanted
  wanted="$(declare -f install_freetoken | digest - "$pins") $("$python" --version 2>&1)"

  if [ "$(cat "$home/.engine" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$home"
    : >".peers/$peer.log"
    step $peer "create an environment with $python" "$python" -m venv "$home"
    step $peer "install torch 2.13.0" "${pip[@]}" setuptools torch==2.13.0
    step $peer "install what FreeToken imports" "${pip[@]}" \
      apache-tvm-ffi einops huggingface_hub msgpack numpy pyzmq tokenizers transformers triton
    step $peer "install FreeToken 0.2.1" "${pip[@]}" --no-deps flashlib==0.4.0 freetoken==0.2.1
    # The comparison is compiled on first use: a machine without a C++ compiler should hear of it here.
    step $peer "import FreeToken's cache (its prefix comparison needs a C++ compiler)" "$home/bin/python" -W ignore -c '
import torch
from freetoken.kernel import fast_compare_key
from freetoken.kvcache.hybrid_radix_cache import HybridRadixCache
from freetoken.kvcache.linear_state_pool import LinearStatePool
from freetoken.scheduler.cache import CacheManager
from freetoken.scheduler.scheduler import Scheduler
tokens = torch.tensor([1, 2, 3], dtype=torch.int32)
assert fast_compare_key(tokens, tokens) == 3'
    echo "$wanted" >"$home/.engine"
  fi

  wanted=$(digest pyproject.toml "$home/.engine")
  if [ "$(cat "$home/.milepost" 2>/dev/null)" != "$wanted" ]; then
    step $peer "install Milepost beside FreeToken" "${pip[@]}" --no-build-isolation --editable .
    echo "$wanted" >"$home/.milepost"
  fi
  echo "install_peers: $peer: ready in $home"
}

command -v "$python" >/dev/null || { echo "install_peers: no '$python' here: name one with PYTHON=..." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "install_peers: $python is older than 3.11: name another with PYTHON=..." >&2; exit 1; }
mkdir -p .peers
for peer in "${@:-${all_peers[@]}}"; do
  case " ${all_peers[*]} " in
    *" $peer "*) "install_$peer" ;;
    *) echo "install_peers: no peer is called '$peer': ${all_peers[*]}" >&2; exit 2 ;;
  esac
done
