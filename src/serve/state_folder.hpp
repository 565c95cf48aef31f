// SPDX-License-Identifier: Apache-2.0
// state_folder: states of a model's sequences as files, in a folder that replicas of a server share. A step's state is
// there before its answer, so any replica makes the next step, however the one before has ended.
//
// A sequence has a folder, CLIENT/ID in base64url, and in it a file for its last step and one for the step before:
// LIFE.STEPS, two numbers in hexadecimal. LIFE becomes larger each time the sequence begins, STEPS with each step. The
// largest pair is where the sequence is. A state appears whole, under a name that nothing had, and counts where nothing
// larger is there then: of two replicas that make one step one has made it. The clocks of replicas must not differ by
// more than a client waits before it begins a sequence again. A machine that fails may lose what its system had not
// written; a process that fails loses nothing.
//
// Thread safety: all members may be called on any thread, and in several processes.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluice/nn/any_tensor.hpp"
#include "sluice/nn/model.hpp"
#include "sluice/serve/sequence.hpp"

namespace sluice::serve {

// A state between two steps.
struct kept_state {
    std::vector<nn::value_info> like;    // what the model said of each value, by the names
    std::vector<nn::any_tensor> values;  // in host memory, in the same order

    std::size_t size_bytes() const noexcept;
};

// Where a sequence is.
struct sequence_place {
    std::uint64_t life = 0;   // 0: it is in no folder
    std::uint64_t steps = 0;  // that are made
    bool has_ended = false;   // with the last of them

    friend auto operator<=>(const sequence_place&, const sequence_place&) = default;
};

class state_folder {
public:
    // Throws file_error for a folder that is not there, and for one that any user may write.
    static void require_shared(const std::filesystem::path& folder);
    // `folder`: of one model; it is made in one that is shared. Throws what require_shared throws of that one, and
    // file_error where it cannot be made and where files cannot have two names.
    explicit state_folder(std::filesystem::path folder);

    const std::filesystem::path& path() const noexcept { return folder_; }

    // These throw refusal (unavailable) where the system says no.

    // The last step that any replica has made; none: the sequence has ended long ago, or never began.
    std::optional<sequence_place> find(const sequence_request& of) const;
    // The place before the first step of a sequence that begins; `arrived`: when its server got the step, which is its
    // life. Throws refusal: unavailable where it has begun later meanwhile; queue_full where it is not live, and `most`
    // are, or as many of its client as may be, by the last count and what was written here since.
    sequence_place begin(const sequence_request& of, std::chrono::system_clock::time_point arrived, std::size_t most);
    // The state after that step. `like`: what the model says of it; `reserve` is called with the bytes that this takes,
    // and may throw. None: it has gone meanwhile. Throws refusal: bad_request where the state is another one; failed
    // for a file that is damaged.
    std::optional<kept_state> read(const sequence_request& of, sequence_place at,
                                   const std::vector<nn::value_info>& like,
                                   const std::function<void(std::size_t)>& reserve) const;
    // What the step that leads to `at` has made. False: it was made already, or later ones were: nothing has changed.
    bool write(const sequence_request& of, sequence_place at, const kept_state& state);

    // Removes sequences that had no step for this time, and counts the others. Where very many have ended, these stay
    // for 10 seconds alone. What it cannot remove stays. It ends soon where `stops` is set.
    void remove_idle(std::chrono::milliseconds idle, const std::atomic<bool>& stops) noexcept;

private:
    std::filesystem::path folder_of(const sequence_request& of) const;
    std::vector<sequence_place> places_of(const sequence_request& of) const;
    void require_room(const sequence_request& of, std::size_t most);
    std::size_t live_now(const std::string& client) const;
    void count(const std::string& client, std::ptrdiff_t live, std::size_t ended);

    const std::filesystem::path folder_;
    mutable std::mutex mutex_;                    // of what follows
    std::map<std::string, std::size_t> live_of_;  // by the folder of the client
    std::size_t live_ = 0;
    std::atomic<std::size_t> ended_{0};
};

}  // namespace sluice::serve
