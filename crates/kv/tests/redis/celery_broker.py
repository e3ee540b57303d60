"""Celery with its broker and its results at the port that is the argument; a worker is a thread of this process."""

import sys

from celery import VERSION, Celery, chord, group
from celery.contrib.testing.worker import start_worker

ADDRESS = f"redis://127.0.0.1:{sys.argv[1]}"
app = Celery("test", broker=ADDRESS + "/1", backend=ADDRESS + "/2", set_as_current=True)
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=False)
# Messages that nobody has acknowledged are looked for while the test runs.
app.conf.broker_transport_options = {"visibility_timeout": 60, "unacked_restore_limit": 10, "polling_interval": 0.1}


@app.task
def add(one, other):
    return one + other


@app.task(bind=True, max_retries=3)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return "done"


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fails():
    raise ValueError("as it should")


with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=60):
    assert add.delay(2, 3).get(timeout=60) == 5
    assert group(add.s(number, number) for number in range(20)).apply_async().get(timeout=60) == list(range(0, 40, 2))
    # Later ones count a chord's parts with a script, which is not known.
    if VERSION < (5, 7):
        assert chord((add.s(number, 1) for number in range(10)), total.s()).apply_async().get(timeout=60) == 55
    assert third_time.delay().get(timeout=60) == "done"
    assert add.apply_async((1, 1), countdown=0.1, priority=5).get(timeout=60) == 2
    try:
        fails.delay().get(timeout=60)
        raise SystemExit("it failed")
    except ValueError as error:
        assert str(error) == "as it should"
    long = "x" * 200_000
    assert len(add.delay(long, long).get(timeout=60)) == 400_000
    # What a worker does now and then for messages of workers that are gone.
    with app.connection() as connection:
        connection.default_channel.qos.restore_visible(interval=1)
print("done")
