// SPDX-License-Identifier: Apache-2.0
#include "cuda/repeated_stretches.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace sluice::cuda {

bool repeated_stretches::add(const repeated_step& step) {
    if (now_.empty()) {
        candidates_ = 0;
        for (std::size_t i = 0; i < known_.size(); ++i) {
            if (known_[i].is_ready) candidates_ |= std::uint32_t{1} << i;
        }
    }
    const std::size_t at = now_.size();
    now_.push_back(step);
    std::uint32_t left = 0;
    for (std::size_t i = 0; candidates_ >> i != 0; ++i) {
        const std::uint32_t bit = std::uint32_t{1} << i;
        if ((candidates_ & bit) != 0 && at < known_[i].all.size() && known_[i].all[at] == step) left |= bit;
    }
    candidates_ = left;
    return left != 0;
}

repeated_stretches::ending repeated_stretches::end() noexcept {
    ending made;
    if (now_.empty()) return made;
    ++clock_;
    if (const auto same = find(now_)) {
        stretch& seen = known_[*same];
        seen.last_seen = clock_;
        if (seen.is_ready) {
            made.replay = same;
        } else if (!seen.is_refused && ++seen.sightings == enough_sightings) {
            made.build = same;
        }
    } else {
        learn(made);
    }
    now_.clear();
    candidates_ = 0;
    return made;
}

void repeated_stretches::learn(ending& made) noexcept {
    try {
        stretch fresh{.all = now_, .sightings = 1, .last_seen = clock_};
        if (known_.size() < most_known) {
            known_.push_back(std::move(fresh));
            return;
        }
        made.replaced = oldest();
        known_[*made.replaced] = std::move(fresh);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it may be learnt another time
    }
}

void repeated_stretches::refuse(std::size_t known) noexcept {
    known_[known].is_ready = false;
    known_[known].is_refused = true;
}

std::optional<std::size_t> repeated_stretches::find(const steps& all) const noexcept {
    const auto found = std::ranges::find(known_, all, &stretch::all);
    if (found == known_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - known_.begin());
}

std::size_t repeated_stretches::oldest() const noexcept {
    return static_cast<std::size_t>(std::ranges::min_element(known_, {}, &stretch::last_seen) - known_.begin());
}

}  // namespace sluice::cuda
