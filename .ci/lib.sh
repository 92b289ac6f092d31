# What the gate's scripts share: sourced by .ci/run and by each of .ci/stages. It needs $WORK, the folder of this run.
set -euo pipefail

CI_FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

say() { printf '%s\n' "$*"; }

# bounded SECONDS COMMAND...: killed with all that it has started when the time is over.
bounded() { python3 "$CI_FOLDER/bounded.py" "$@"; }

# python_for VERSION: the path of an interpreter of that version that really starts; nothing if there is none.
python_for() {
    local version
    for version in "" $(command -v pyenv >/dev/null && pyenv versions --bare 2>/dev/null | grep "^${1//./\\.}\.[0-9]*$" || true); do
        PYENV_VERSION=$version "python$1" -c 'import sys; print(sys.executable)' 2>/dev/null && return 0
    done
    return 0
}

# copy NAME: a fresh copy of what is committed, in $WORK/NAME.
copy() { cp -R "$WORK/pristine" "$WORK/$1"; }

# versions ENVIRONMENT: what it has of our dependencies.
versions() {
    "$1/bin/python" --version
    python3 -m uv pip list --python "$1" --quiet |
        grep -i -E '^(aiohttp|click|hypothesis|msgpack|numpy|pandas|pyarrow|pydantic|pyspark|pytest|pyyaml|rich|setuptools|uvloop)' || true
}
