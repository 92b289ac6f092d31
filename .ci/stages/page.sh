# The page in a real browser: on recorded feeds, with axe-core, and its vendored files against npm; its REST interface with
# schemathesis. Chromium is installed if there is none and this is root on a system with apt; playwright and schemathesis
# are in an environment of their own.
source "$(dirname "$0")/../lib.sh"
if ! command -v chromium >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing chromium"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive bounded 400 apt-get install -y -qq chromium >/dev/null
fi
if ! command -v chromium >/dev/null; then
    say "no Chromium here: apt-get install chromium"
    exit "$NOT_HERE"
fi
copy page
cd "$WORK/page"
python3 -m uv sync --quiet --no-default-groups --group test --group e2e
if ! command -v npm >/dev/null; then
    say "no npm here: the check of accessibility needs axe-core, and that of vendored files npm's"
    exit "$NOT_HERE"
fi
bounded 100 .venv/bin/python -m tests.ui.vendored
bounded 100 .venv/bin/python -m tests.ui.vendored --axe "$WORK/axe.min.js"
export AIOSTORM_AXE=$WORK/axe.min.js
AIOSTORM_E2E=required bounded 600 .venv/bin/python -m pytest -q -n0 -m e2e tests/ui
