// SPDX-License-Identifier: Apache-2.0
#include "shares.hpp"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace sluice::app {

row_range share_of_rows(std::size_t rows, std::size_t batch, int rank, int size) {
    const std::size_t batches = rows / batch + (rows % batch != 0 ? 1 : 0);
    const std::size_t each = batches / static_cast<std::size_t>(size);
    const std::size_t left = batches % static_cast<std::size_t>(size);  // one more for each of the first ranks
    const auto first_batch = [&](int of) {
        const auto before = static_cast<std::size_t>(of);
        return before * each + std::min(before, left);
    };
    const auto first_row = [&](int of) { return first_batch(of) >= batches ? rows : first_batch(of) * batch; };
    return {first_row(rank), first_row(rank + 1) - first_row(rank)};
}

std::vector<std::size_t> share_of_devices(std::size_t devices, bool all, int local_rank, int local_size) {
    const auto first = static_cast<std::size_t>(local_rank) % devices;
    const auto ranks = static_cast<std::size_t>(local_size);
    if (!all || ranks >= devices) return {first};
    std::vector<std::size_t> share;
    for (std::size_t each = first; each < devices; each += ranks) share.push_back(each);
    return share;
}

std::size_t share_of_cores(int local_size) {
    const std::size_t all = std::max(1u, std::thread::hardware_concurrency());
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    // Fails on machines with more cores than the set has room for; then there is no limit to know.
    const bool is_known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    const std::size_t own = is_known ? static_cast<std::size_t>(CPU_COUNT(&allowed)) : all;
    return std::max<std::size_t>(1, std::min(own, all / static_cast<std::size_t>(local_size)));
}

}  // namespace sluice::app
