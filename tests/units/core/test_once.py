"""Properties that are computed once: by each object for itself, without waiting for others."""

from threading import Barrier, Thread

import pytest

from anabranch.core.once import once


class Meeting:
    """Two objects that compute at the same time, or none does."""

    barrier = Barrier(2, timeout=20)

    @once
    def place(self):
        """Where all meet."""
        self.barrier.wait()
        return [id(self)]


def test_objects_do_not_wait_for_one_another():
    pair = Meeting(), Meeting()
    threads = [Thread(target=lambda one=one: one.place) for one in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.place for one in pair] == [[id(one)] for one in pair]
    assert pair[0].place is pair[0].place


def test_what_the_first_of_several_threads_computed_stays():
    one, found = Meeting(), []
    threads = [Thread(target=lambda: found.append(one.place)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is one.place


def test_an_error_leaves_nothing():
    class Failing:
        counted = 0

        @once
        def value(self):
            self.counted += 1
            raise ValueError(self.counted)

    one = Failing()
    for count in (1, 2):
        with pytest.raises(ValueError, match=str(count)):
            _ = one.value
    assert Meeting.place.__doc__ == "Where all meet."
