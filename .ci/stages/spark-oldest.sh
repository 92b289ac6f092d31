# Batches, streams and files with the oldest PySpark that is promised, on the newest Java that it knows, in the environment
# that spark-environments has made. It has no data sources in Python: their tests are skipped, with that reason. It
# leaves sockets to Python's garbage collector: that warning is no error here.
source "$(dirname "$0")/../lib.sh"
if [[ -z $(python_for 3.11) ]] || ! command -v java >/dev/null; then
    say 'it needs Python 3.11 and Java 17, and one of them is not here'
    exit "$NOT_HERE"
fi
cd "$WORK/spark-oldest"
AIOSTORM_SPARK=required bounded 600 .venv/bin/python -m pytest -q -m spark \
    -W 'ignore::pytest.PytestUnraisableExceptionWarning' \
    tests/spark/test_batch_spout.py tests/spark/test_stream.py tests/spark/test_parquet_sink.py \
    tests/spark/test_datasource.py
