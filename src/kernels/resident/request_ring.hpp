// SPDX-License-Identifier: Apache-2.0
// request_ring: the inbox and the outbox of one lane of a kernel that stays. Host threads ask and take answers; the
// kernel, or a host thread in its place, takes the requests in the order of their numbers and answers them. Knows no
// CUDA.
//
// Answers may be taken in any order. One that is not taken yet when its entry's turn comes again is kept apart, so that
// a thread that is slow to take holds up no other; as many as there are entries are kept.
//
// Invariants:
//   - Request n has entry n % depth in both boxes, from claim() to take(), or until its answer is kept apart, or, when
//   it
//     was abandoned, to its answer.
//   - An entry's turn is 4 n while it is free for request n or in use by it, 4 n + 1 when the answer to n is not wanted
//     (then it is free for n + depth as soon as that answer is there), and 4 n + 2 while the answer to n is being
//     copied to a kept answer.
//   - A kept answer is published before the turn of its entry passes to n + depth.
//   - A word has the flag of the latest request that was written to it. Words of another flag are not read.
//
// Thread safety: claim() on any thread; the other members for a number by the one thread that has claimed it; those of
// the kernel's side by one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sluice::kernels {

class request_ring {
public:
    // How many words of 8 bytes each box takes.
    static std::size_t inbox_words(std::size_t depth, std::size_t request_bytes) noexcept;
    static std::size_t outbox_words(std::size_t depth, std::size_t answer_bytes) noexcept;

    // The boxes are cleared, and the caller's.
    request_ring(std::size_t depth, std::size_t request_bytes, std::size_t answer_bytes, std::uint64_t* inbox,
                 std::uint64_t* outbox);

    // The number of a new request; nothing while all entries are in use by requests without an answer, or while there
    // is no room to keep another answer that is not taken.
    std::optional<std::uint64_t> claim() noexcept;
    // Publishes it. The request is read before this returns.
    void ask(std::uint64_t number, const void* request) noexcept;
    bool has_answer(std::uint64_t number) const noexcept;
    // Reads the answer and frees its place, if the answer is there. `answer` and `words_taken`, which begins with 0,
    // are the same at each call for a number.
    bool take(std::uint64_t number, void* answer, std::uint32_t& words_taken) noexcept;
    // The answer is not wanted. Its place is freed when it has come.
    void abandon(std::uint64_t number) noexcept;

    // The kernel's side.
    bool read_request(std::uint64_t number, void* request) const noexcept;
    void write_answer(std::uint64_t number, const void* answer) noexcept;

private:
    static constexpr std::uint64_t unwanted = 1, moving = 2, turn_step = 4;
    struct alignas(64) entry {
        std::atomic<std::uint64_t> turn{0};
    };
    // An answer whose entry is needed for another request. `number` is `none`, `filling` or the request's.
    static constexpr std::uint64_t none = ~std::uint64_t{0}, filling = none - 1;
    struct kept_answer {
        std::atomic<std::uint64_t> number{none};
    };

    bool is_written(std::uint64_t number) const noexcept;
    bool keep(std::uint64_t number) noexcept;
    kept_answer* kept(std::uint64_t number) const noexcept;
    std::byte* bytes_of(const kept_answer& of) const noexcept;
    std::uint64_t* request_of(std::uint64_t number) const noexcept;
    std::uint64_t* answer_of(std::uint64_t number) const noexcept;

    const std::uint64_t depth_;
    const std::size_t request_bytes_, answer_bytes_;
    std::uint64_t* const inbox_;
    std::uint64_t* const outbox_;
    const std::unique_ptr<entry[]> entries_;
    const std::unique_ptr<kept_answer[]> kept_;
    const std::unique_ptr<std::byte[]> kept_bytes_;  // [depth][answer bytes]
    alignas(64) std::atomic<std::uint64_t> next_{0};
};

}  // namespace sluice::kernels
