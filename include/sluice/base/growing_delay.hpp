// SPDX-License-Identifier: Apache-2.0
// growing_delay: how long to wait before something that failed is tried again.
//
//     retry(5, growing_delay{.first = 2ms, .most = 1s, .seed = id}, make)
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

// The first delay is `first`, each later one `growth` times as long as the one before, and none is longer than `most`.
// Each is then shortened at random by up to the part `jitter` of it, so that operations that failed together do not
// come again together. The same seed gives the same delays, so such operations need different seeds.
struct growing_delay {
    std::chrono::duration<double> first = std::chrono::milliseconds(1);  // before the second try
    std::chrono::duration<double> most = std::chrono::seconds(1);        // that a delay grows to
    double growth = 2;                                                   // at least 1, finite
    double jitter = 0.5;                                                 // from 0, none, to 1
    std::uint64_t seed = 0;                                              // of the random numbers
};

namespace detail {

// The delays, one after the other. Thread safety: none.
class delays {
public:
    // Throws errc::invalid_argument for a time that is negative or not a number, for a growth that is not finite or
    // less than 1, and for a jitter outside [0, 1].
    explicit delays(const growing_delay& of);
    std::chrono::duration<double> next();

private:
    growing_delay of_;
    std::uint64_t state_;  // of the random numbers
};

}  // namespace detail

}  // namespace sluice
