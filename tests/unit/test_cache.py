"""LruCache: bounds by count and by weight, one value per key, and copies that start empty."""

import pickle

from tidegate.cache import LruCache


def test_the_least_recently_used_entry_goes_first() -> None:
    cache = LruCache[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_value_that_is_put_again_weighs_once() -> None:
    cache = LruCache[str, str](max_weight=5, weigh=len)
    text = "abc"
    assert cache.put("a", text) is cache.put("a", text)
    cache.put("b", "de")
    assert len(cache) == 2
    cache.put("c", "f")
    assert ("a" in cache, "b" in cache, "c" in cache) == (False, True, True)


def test_the_first_of_two_computed_values_is_kept() -> None:
    cache = LruCache[str, list[int]](4)

    def compute() -> list[int]:
        cache.put("key", [1])  # another thread was faster
        return [2]

    assert cache.get_or_compute("key", compute) == [1]


def test_a_pickled_cache_is_empty_with_the_same_bounds() -> None:
    cache = LruCache[str, int](1)
    cache.put("a", 1)
    copy = pickle.loads(pickle.dumps(cache))
    copy.put("b", 2)
    copy.put("c", 3)
    assert (copy.get("a"), copy.get("b"), copy.get("c")) == (None, None, 3)
