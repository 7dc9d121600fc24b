#!/usr/bin/env bash
# Gives each engine that the kit judges an environment of its own under .peers/, and puts Milepost beside it.
# Usage: tools/install_peers.sh [PEER...]   (all of them when none is named; PYTHON names the interpreter)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

all_peers=(freetoken sglang vllm)
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

install_sglang() {
  local peer=sglang home=.peers/sglang pins=tools/sglang-constraints.txt
  local pip=("$home/bin/python" -m pip install --quiet --constraint "$pins")
  local wanted
  wanted="$(declare -f install_sglang | digest - "$pins") $("$python" --version 2>&1)"

  if [ "$(cat "$home/.engine" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$home"
    : >".peers/$peer.log"
    step $peer "create an environment with $python" "$python" -m venv "$home"
    step $peer "install torch 2.13.0" "${pip[@]}" setuptools torch==2.13.0
    step $peer "install what SGLang's scheduler imports" "${pip[@]}" \
      aiohttp apache-tvm-ffi dill einops fastapi gguf ipython msgspec numba numpy openai orjson packaging \
      partial-json-parser pillow prometheus-client psutil pybase64 pydantic python-multipart pyzmq regex requests \
      scipy sentencepiece setproctitle tqdm transformers triton uvicorn uvloop xxhash zstandard
    step $peer "install SGLang 0.5.23" "${pip[@]}" --no-deps sglang==0.5.23
    # The compiled core is loaded here: a torch that it does not accept would silently give the Python core instead.
    step $peer "load SGLang's compiled tree core" "$home/bin/python" -W ignore -c '
import torch
import sglang.srt.mem_cache.rust_tree_core.mem_cache'
    echo "$wanted" >"$home/.engine"
  fi

  wanted=$(digest pyproject.toml "$home/.engine")
  if [ "$(cat "$home/.milepost" 2>/dev/null)" != "$wanted" ]; then
    step $peer "install Milepost beside SGLang" "${pip[@]}" --no-build-isolation --editable .
    echo "$wanted" >"$home/.milepost"
  fi
  echo "install_peers: $peer: ready in $home"
}

install_vllm() {
  local peer=vllm home=.peers/vllm pins=tools/vllm-constraints.txt version=0.33.0
  local pip=("$home/bin/python" -m pip install --quiet --constraint "$pins")
  local wanted
  wanted="$(declare -f install_vllm | digest - "$pins") $("$python" --version 2>&1)"

  if [ "$(cat "$home/.engine" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$home"
    : >".peers/$peer.log"
    step $peer "create an environment with $python" "$python" -m venv "$home"
    step $peer "install torch 2.13.0" "${pip[@]}" setuptools torch==2.13.0
    step $peer "install what vLLM's cache imports" "${pip[@]}" cbor2 msgspec numpy
    # One platform's wheel serves all: only its Python files are kept, and its GPU packages are never asked for.
    step $peer "download vLLM $version (340 MB)" "$home/bin/python" -m pip download --quiet --no-deps \
      --only-binary :all: --platform manylinux_2_28_x86_64 --dest "$home/wheel" "vllm==$version"
    step $peer "unpack its Python files" "$home/bin/python" -c '
import pathlib, sysconfig, sys, zipfile
home = pathlib.Path(sys.argv[1])
engine = (home / "engine").absolute()
for wheel in (home / "wheel").glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        kept = [name for name in archive.namelist() if name.endswith(".py")]
        archive.extractall(engine, kept)
    wheel.unlink()
pathlib.Path(sysconfig.get_path("purelib"), "vllm_engine.pth").write_text(f"{engine}\n")' "$home"
    step $peer "find vLLM's cache" "$home/bin/python" -c '
import importlib.util, pathlib, sys, cbor2, msgspec, numpy, torch
found = importlib.util.find_spec("vllm")
assert found and found.origin, "there is no vllm on the path"
folder = pathlib.Path(found.origin).parent
names = "v1/core/kv_cache_manager.py", "v1/core/sched/scheduler.py", "v1/worker/utils.py"
assert all((folder / name).exists() for name in names), f"{folder} is not whole"
assert sys.argv[1] in (folder / "_version.py").read_text()' "$version"
    echo "$wanted" >"$home/.engine"
  fi

  wanted=$(digest pyproject.toml "$home/.engine")
  if [ "$(cat "$home/.milepost" 2>/dev/null)" != "$wanted" ]; then
    step $peer "install Milepost beside vLLM" "${pip[@]}" --no-build-isolation --editable .
    echo "$wanted" >"$home/.milepost"
  fi
  echo "install_peers: $peer: ready in $home"
}

# The recorder too, so that each engine's own loader of plug-ins finds it there.
install_recorder() { # PEER
  local peer=$1 home=.peers/$1 wanted
  wanted=$(digest recorder/pyproject.toml "$home/.milepost")
  if [ "$(cat "$home/.recorder" 2>/dev/null)" != "$wanted" ]; then
    step "$peer" "install the recorder beside it" \
      "$home/bin/python" -m pip install --quiet --no-build-isolation --no-deps --editable ./recorder
    echo "$wanted" >"$home/.recorder"
  fi
}

command -v "$python" >/dev/null || { echo "install_peers: no '$python' here: name one with PYTHON=..." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "install_peers: $python is older than 3.11: name another with PYTHON=..." >&2; exit 1; }
mkdir -p .peers
for peer in "${@:-${all_peers[@]}}"; do
  case " ${all_peers[*]} " in
    *" $peer "*) "install_$peer" && install_recorder "$peer" ;;
    *) echo "install_peers: no peer is called '$peer': ${all_peers[*]}" >&2; exit 2 ;;
  esac
done
