// SPDX-License-Identifier: Apache-2.0
#include "check/shadow.hpp"

#include "check/overlap.hpp"

namespace sluice::check {
namespace {

bool is_write(access_mode mode) noexcept { return mode == access_mode::write || mode == access_mode::writable; }

int strength(access_mode mode) noexcept {
    if (mode == access_mode::read) return 0;
    return mode == access_mode::unknown ? 1 : 2;
}

}  // namespace

conflict between(access_mode a, access_mode b) noexcept {
    if (is_write(a) || is_write(b)) return conflict::certain;
    return a == access_mode::read && b == access_mode::read ? conflict::none : conflict::uncertain;
}

bool shadow::meets(const byte_span& a, const byte_span& b) noexcept { return overlap(a, b); }

void shadow::forget(const vector_clock& covered) {
    std::erase_if(records_, [&](const access_record& each) { return covered.covers(each.at); });
}

// What comes later and is not ordered after the old use is not ordered after the new one either, as that follows the
// old one. So the new one is enough where it has all bytes of the old one and conflicts with no less.
void shadow::replace(const access_record& use, const vector_clock& known) {
    std::erase_if(records_, [&](const access_record& old) {
        return strength(use.used.mode) >= strength(old.used.mode) && known.covers(old.at) &&
               contains(use.used.where, old.used.where);
    });
    records_.push_back(use);
}

}  // namespace sluice::check
