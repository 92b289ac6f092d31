# Types, as an editor sees them. Pyright needs a node: the machine's, or one that comes with it.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
if command -v node >/dev/null; then
    .venv/bin/pyright --pythonpath .venv/bin/python
else
    python3 -m uv run --with 'pyright[nodejs]' pyright --pythonpath .venv/bin/python
fi
