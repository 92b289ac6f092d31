# Batches, streams and files with the oldest PySpark that is promised, on the newest Python and Java that it knows. It has
# no data sources in Python: their tests are skipped, with that reason. It leaves sockets to Python's garbage collector:
# that warning is no error here.
source "$(dirname "$0")/../lib.sh"
python=$(python_for 3.11)
if [[ -z $python ]] || ! command -v java >/dev/null; then
    say 'it needs Python 3.11 and Java 17, and one of them is not here'
    exit "$NOT_HERE"
fi
copy spark-oldest
cd "$WORK/spark-oldest"
python3 -m uv venv --quiet --python "$python" .venv
python3 -m uv pip install --quiet --python .venv --editable '.[spark]' --group test 'pyspark==3.5.*'
versions .venv
AIOSTORM_SPARK=required bounded 600 .venv/bin/python -m pytest -q -m spark \
    -W 'ignore::pytest.PytestUnraisableExceptionWarning' \
    tests/spark/test_batch_spout.py tests/spark/test_stream.py tests/spark/test_parquet_sink.py \
    tests/spark/test_datasource.py
