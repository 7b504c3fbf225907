from dafka.protocol.inquiry import Inquiry


def test_it_asks_ever_more_rarely_up_to_a_bound():
    inquiry = Inquiry(2_000)
    assert not inquiry.asked(0)
    inquiry.renew(0)
    asked = [now_ms for now_ms in range(0, 10_000, 100) if inquiry.asked(now_ms)]
    assert asked == [0, 500, 1_500, 3_500, 5_500, 7_500, 9_500]


def test_whoever_is_new_is_asked_at_once_and_again_soon():
    inquiry = Inquiry(60_000)
    inquiry.renew(0)
    for now_ms in range(0, 20_000, 100):
        inquiry.asked(now_ms)
    inquiry.renew(20_000)
    asked = [now_ms for now_ms in range(20_000, 24_000, 100) if inquiry.asked(now_ms)]
    assert asked == [20_000, 20_500, 21_500, 23_500]


def test_what_was_told_by_other_ways_is_only_asked_of_whoever_is_new():
    inquiry = Inquiry(2_000)
    inquiry.renew(0)
    asked = [now_ms for now_ms in range(0, 8_000, 100) if inquiry.asked(now_ms, told=True)]
    assert asked == [0, 500]
    assert inquiry.passed_ms == 7_500
    inquiry.renew(8_000)
    asked = [now_ms for now_ms in range(8_000, 16_000, 100) if inquiry.asked(now_ms, told=True)]
    assert asked == [8_000, 8_500]
    asked = [now_ms for now_ms in range(16_000, 20_000, 100) if inquiry.asked(now_ms)]
    assert asked == [17_500, 19_500]
