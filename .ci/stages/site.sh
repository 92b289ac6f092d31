# The documentation's site, with what it needs and nothing more; a warning is an error.
source "$(dirname "$0")/../lib.sh"
copy site
cd "$WORK/site"
python3 -m uv sync --quiet --no-default-groups --group test --group docs
AIOSTORM_DOCS=required bounded 200 .venv/bin/python -m pytest -q -m '' tests/docs/test_site.py
