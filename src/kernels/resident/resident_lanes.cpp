// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/resident_lanes.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/resident/host_words.hpp"

namespace sluice::kernels {
namespace {

// In front of the boxes: the address of the image, on a line of its own.
constexpr std::size_t words_in_front = 16;

std::size_t inbox_words(const resident_layout& layout, std::size_t lanes) noexcept {
    return lanes * resident_lanes::depth * layout.rows * layout.input_words();
}
std::size_t outbox_words(const resident_layout& layout, std::size_t lanes) noexcept {
    return lanes * resident_lanes::depth * layout.rows * layout.output_words();
}

}  // namespace

std::size_t resident_lanes::bytes(const resident_layout& layout, std::size_t lanes) noexcept {
    return 8 * (words_in_front + inbox_words(layout, lanes) + outbox_words(layout, lanes));
}

resident_lanes::resident_lanes(const resident_layout& layout, std::size_t lanes, void* memory)
    : layout_(layout),
      image_(static_cast<std::uint64_t*>(memory)),
      inbox_(image_ + words_in_front),
      outbox_(inbox_ + inbox_words(layout, lanes)),
      lanes_(lanes) {}

resident_call resident_lanes::call(std::uint32_t pause, const std::uint32_t* stop) const noexcept {
    return {image_, inbox_, outbox_, stop, depth, pause, layout_};
}

void resident_lanes::set_image(const void* on_device) noexcept {
    std::atomic_ref(*image_).store(reinterpret_cast<std::uintptr_t>(on_device), std::memory_order_relaxed);
}

std::uint64_t* resident_lanes::entry_in(std::size_t lane) const noexcept {
    return inbox_ + (lane * depth + lanes_[lane].slot) * layout_.rows * layout_.input_words();
}
const std::uint64_t* resident_lanes::entry_out(std::size_t lane) const noexcept {
    return outbox_ + (lane * depth + lanes_[lane].slot) * layout_.rows * layout_.output_words();
}

void resident_lanes::begin(lane_state& of, std::uint32_t asked) noexcept {
    of.number = next_resident_number(of.number);
    of.flag = of.number << 4 | asked;
    of.slot = (of.slot + 1) % depth;
    of.words_taken = 0;
}

void resident_lanes::ask(std::size_t lane, const std::uint16_t* inputs, std::uint32_t rows) noexcept {
    lane_state& of = lanes_[lane];
    begin(of, rows - 1);
    of.rows = rows;
    const resident_layer& first = layout_.layer[0];
    const std::uint32_t pitch = layout_.input_pitch();
    // The first row last, after the others: a block that sees it reads them.
    for (std::uint32_t row = rows; row-- != 0;) {
        if (row == 0) std::atomic_thread_fence(std::memory_order_release);
        std::uint64_t* words = entry_in(lane) + std::size_t{row} * layout_.input_words();
        const std::uint16_t* const x = inputs + std::size_t{row} * first.inputs;
        for (std::uint32_t block = 0; block < layout_.blocks; ++block, words += pitch) {
            const std::uint32_t begin = std::min(block * first.slice, first.inputs);
            const std::uint32_t end = std::min(begin + first.slice, first.inputs);
            const std::uint32_t pairs = (end - begin) / 2;
            for (std::uint32_t i = 0; i < pairs; ++i) {
                std::uint32_t both = 0;
                std::memcpy(&both, x + begin + std::size_t{2} * i, sizeof(both));
                put_word(words + i, both, of.flag);
            }
            if ((end - begin) % 2 != 0) put_word(words + pairs, x[end - 1], of.flag);
            if (begin == end) put_word(words, 0, of.flag);
        }
    }
}

void resident_lanes::ask_to_reload(std::size_t lane) noexcept {
    lane_state& of = lanes_[lane];
    begin(of, resident_reload);
    std::atomic_thread_fence(std::memory_order_release);  // the image's address is written before
    std::uint64_t* const words = entry_in(lane);
    for (std::uint32_t i = 0; i < layout_.input_words(); ++i) put_word(words + i, 0, of.flag);
}

bool resident_lanes::take(std::size_t lane, std::uint16_t* outputs) noexcept {
    lane_state& of = lanes_[lane];
    const std::uint64_t* const words = entry_out(lane);
    if (outputs == nullptr) return has_flag(word_at(words), of.flag);
    const std::uint32_t columns = layout_.layer[layout_.layers - 1].outputs, pairs = layout_.output_words();
    for (; of.words_taken < of.rows * pairs; ++of.words_taken) {
        const std::uint64_t word = word_at(words + of.words_taken);
        if (!has_flag(word, of.flag)) return false;
        const std::uint32_t row = of.words_taken / pairs, column = 2 * (of.words_taken % pairs);
        const std::uint32_t both = static_cast<std::uint32_t>(word);
        std::uint16_t* const to = outputs + std::size_t{row} * columns + column;
        to[0] = static_cast<std::uint16_t>(both);
        if (column + 1 < columns) to[1] = static_cast<std::uint16_t>(both >> 16);
    }
    return true;
}

}  // namespace sluice::kernels
