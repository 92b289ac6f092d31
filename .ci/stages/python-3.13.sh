# The newest Python, with the newest dependencies: the tests of what depends on the interpreter and takes little time. (No
# real sockets and processes, nothing slow, and not what is about the checkout: those run once, in the stages tests and slow.)
source "$(dirname "$0")/../lib.sh"
python=$(python_for 3.13)
if [[ -z $python ]]; then
    say 'no Python 3.13 here'
    exit "$NOT_HERE"
fi
copy python-3.13
cd "$WORK/python-3.13"
python3 -m uv venv --quiet --python "$python" .venv
python3 -m uv pip install --quiet --python .venv --editable . --group test
versions .venv
AIOSTORM_EXAMPLES=again bounded 800 .venv/bin/python -m pytest -q -m 'not sockets and not slow' \
    --ignore=tests/house --ignore=tests/docs --ignore=tests/examples --ignore=tests/benchmarks --ignore=tests/simulation
