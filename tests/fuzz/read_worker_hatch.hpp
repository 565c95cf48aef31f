// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with a hatch: one side writes a right message, then the fuzzer's bytes damage the memory that
// both share, and the other side reads. Each message is read whole or refused; no address outside the memory is
// touched.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "serve/workers/batch_message.hpp"
#include "serve/workers/failure_message.hpp"
#include "serve/workers/hatch.hpp"
#include "serve/workers/packed.hpp"

namespace sluice::serve::fuzz {

// A hatch in memory of the right size, so that a sanitizer sees each byte too far.
class damaged_hatch {
public:
    static constexpr std::size_t area_bytes = 96;

    // The next bytes say what is changed: a word of a side, or a byte of the area.
    void damage(std::span<const std::byte> bytes) {
        for (; bytes.size() >= 6; bytes = bytes.subspan(6)) {
            const auto what = static_cast<unsigned char>(bytes[0]);
            std::uint32_t value = 0;
            std::memcpy(&value, bytes.data() + 1, sizeof(value));
            hatch_words::of_side& side = (what & 1) != 0 ? words_.front : words_.worker;
            if (what % 16 == 2)
                side.given = value % 4;
            else if (what % 16 == 4)
                side.piece = (value & 0x80000000U) | (value % (2 * area_bytes));
            else if (what % 16 == 6)
                side.sleeps = value;
            else
                area_[static_cast<unsigned char>(bytes[5]) % area_bytes] = bytes[1];
        }
    }

private:
    std::span<std::byte> area() { return {area_.get(), area_bytes}; }

    hatch_words words_{};
    std::unique_ptr<std::byte[]> area_ = std::make_unique<std::byte[]>(area_bytes);

public:
    hatch front{words_, area(), hatch_side::front};
    hatch worker{words_, area(), hatch_side::worker};
};

// A side that waits for more than there is has read all that was given.
struct waited : std::runtime_error {
    waited() : std::runtime_error("it waits") {}
};

// Whether a whole message was read. The first byte says which side reads what.
inline bool read_worker_hatch(std::span<const std::byte> bytes) {
    if (bytes.empty()) return false;
    const auto form = static_cast<unsigned char>(bytes[0]);
    const hatch_wait wait{.spin = std::chrono::nanoseconds(0), .look = [] { throw waited(); }};
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    damaged_hatch memory;
    const std::vector<nn::any_tensor> tensors{nn::any_tensor(std::vector<float>{1, 2, 3}, {1, 3})};
    try {
        if (form % 3 == 0) {
            write_request(memory.front, wait, 1, tensors);
            memory.damage(bytes.subspan(1));
            read_request(memory.worker, memory.worker.take(wait.spin, wait.look), wait, most_bytes);
        } else if (form % 3 == 1) {
            write_answer(memory.worker, wait, tensors);
            memory.damage(bytes.subspan(1));
            read_answer(memory.front, memory.front.take(wait.spin, wait.look), wait, most_bytes);
        } else {
            write_failure(memory.worker, wait, "it has failed");
            memory.damage(bytes.subspan(1));
            const auto got = read_answer(memory.front, memory.front.take(wait.spin, wait.look), wait, most_bytes);
            if (const auto* const failure = std::get_if<std::string>(&got)) text_of_failure(*failure);
        }
        return true;
    } catch (const worker_damage&) {
    } catch (const waited&) {
    }
    return false;
}

}  // namespace sluice::serve::fuzz
