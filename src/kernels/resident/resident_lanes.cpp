// SPDX-License-Identifier: Apache-2.0
#include "kernels/resident/resident_lanes.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sluice::kernels {
namespace {

// Before the boxes: the address of the image, on a line of its own.
constexpr std::size_t words_before_boxes = 8;

std::size_t inbox_words(const resident_layout& layout, std::size_t lanes) noexcept {
    return lanes * resident_lanes::depth * layout.input_words();
}
std::size_t outbox_words(const resident_layout& layout, std::size_t lanes) noexcept {
    return lanes * resident_lanes::depth * layout.output_words();
}

// The half with the flag last.
void put_halves(resident_word& to, std::uint64_t low, std::uint64_t high) noexcept {
    std::atomic_ref(to.low).store(low, std::memory_order_relaxed);
    std::atomic_ref(to.high).store(high, std::memory_order_release);
}

// The elements that are left, at most a word's.
void put_last(resident_word& to, const std::uint16_t* from, std::size_t elements, std::uint32_t flag) noexcept {
    std::uint64_t halves[2] = {};
    std::memcpy(halves, from, elements * sizeof(*from));
    put_halves(to, halves[0], halves[1] | std::uint64_t{flag} << 48);
}

// `elements` at `from`, of which `readable` may be read.
void put_row(resident_word* to, const std::uint16_t* from, std::size_t elements, [[maybe_unused]] std::size_t readable,
             std::uint32_t flag) noexcept {
    std::size_t done = 0;
#if defined(__SSE2__)
    // Twice as fast as two stores of 8 bytes. The processors store 16 aligned bytes at once: AMD and Intel say so of
    // those with AVX.
    for (; done + resident_word_elements <= elements && done + 8 <= readable; done += resident_word_elements) {
        const __m128i loaded = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done));
        _mm_store_si128(reinterpret_cast<__m128i*>(to++), _mm_insert_epi16(loaded, static_cast<int>(flag), 7));
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
    for (; done < elements; done += resident_word_elements)
        put_last(*to++, from + done, std::min<std::size_t>(resident_word_elements, elements - done), flag);
}

// The line comes into this core's cache, to be written.
void fetch_to_write([[maybe_unused]] const resident_word& first) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" ::"m"(first));
#endif
}

void clear(resident_word* words, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) put_halves(words[i], 0, 0);
}

bool has_answer(const resident_word& word, std::uint32_t flag, std::uint64_t& high) noexcept {
    high = std::atomic_ref(const_cast<std::uint64_t&>(word.high)).load(std::memory_order_acquire);
    return high >> 48 == flag;
}

}  // namespace

std::size_t resident_lanes::bytes(const resident_layout& layout, std::size_t lanes) noexcept {
    return sizeof(resident_word) * (words_before_boxes + inbox_words(layout, lanes) + outbox_words(layout, lanes));
}

resident_lanes::resident_lanes(const resident_layout& layout, std::size_t lanes, void* memory)
    : layout_(layout),
      image_(static_cast<std::uint64_t*>(memory)),
      inbox_(static_cast<resident_word*>(memory) + words_before_boxes),
      outbox_(inbox_ + inbox_words(layout, lanes)),
      lanes_(lanes) {}

resident_call resident_lanes::call(std::uint32_t pause, const std::uint32_t* stop) const noexcept {
    return {image_, inbox_, outbox_, stop, depth, pause, layout_};
}

void resident_lanes::set_image(const void* on_device) noexcept {
    std::atomic_ref(*image_).store(reinterpret_cast<std::uintptr_t>(on_device), std::memory_order_relaxed);
}

resident_word* resident_lanes::entry_in(std::size_t lane, std::size_t slot) const noexcept {
    return inbox_ + (lane * depth + slot) * layout_.input_words();
}
resident_word* resident_lanes::entry_out(std::size_t lane) const noexcept {
    return outbox_ + (lane * depth + lanes_[lane].slot) * layout_.output_words();
}

resident_lanes::lane_state& resident_lanes::begin(std::size_t lane, std::uint32_t asked) noexcept {
    lane_state& of = lanes_[lane];
    of.number = next_resident_number(of.number);
    of.flag = of.number << 4 | asked;
    of.slot = (of.slot + 1) % depth;
    of.words_taken = of.blocks_fetched = 0;
    // Every block has read this entry's latest request: it was asked before the latest one that has an answer.
    if (++of.uses[of.slot] == uses_before_clear) {
        of.uses[of.slot] = 0;
        clear(entry_in(lane), layout_.input_words());
        clear(entry_out(lane), layout_.output_words());
    }
    return of;
}

void resident_lanes::ask(std::size_t lane, const std::uint16_t* inputs, std::uint32_t rows) noexcept {
    lane_state& of = begin(lane, rows - 1);
    of.rows = rows;
    const std::size_t columns = layout_.layer[0].inputs, slice = std::size_t{layout_.words} * resident_word_elements;
    for (std::size_t block = 0; block < layout_.blocks; ++block) {
        resident_word* words = entry_in(lane) + block * layout_.input_pitch();
        const std::size_t first = block * slice;
        if (first >= columns) {  // it takes no inputs, and watches one word
            put_halves(*words, 0, std::uint64_t{of.flag} << 48);
            continue;
        }
        for (std::size_t row = 0; row < rows; ++row, words += layout_.words) {
            put_row(words, inputs + row * columns + first, std::min(slice, columns - first),
                    (rows - row) * columns - first, of.flag);
        }
    }
}

void resident_lanes::ask_to_reload(std::size_t lane) noexcept {
    const lane_state& of = begin(lane, resident_reload);
    std::atomic_thread_fence(std::memory_order_release);  // the image's address is written before
    for (std::uint32_t block = 0; block < layout_.blocks; ++block) {
        resident_word* const words = entry_in(lane) + std::size_t{block} * layout_.input_pitch();
        for (std::uint32_t i = 0; i < layout_.words; ++i) put_halves(words[i], 0, std::uint64_t{of.flag} << 48);
    }
}

// The GPU has read the lines of the next request, so that writing them takes this core longer. They are fetched while
// an answer is awaited: those of one block at each look.
void resident_lanes::fetch_of_next(lane_state& of, std::size_t lane) const noexcept {
    if (of.blocks_fetched == layout_.blocks) return;
    const resident_word* const words =
        entry_in(lane, (of.slot + 1) % depth) + std::size_t{of.blocks_fetched++} * layout_.input_pitch();
    constexpr std::uint32_t of_line = 64 / sizeof(resident_word);
    for (std::uint32_t i = 0; i < of.rows * layout_.words; i += of_line) fetch_to_write(words[i]);
}

bool resident_lanes::take(std::size_t lane, std::uint16_t* outputs) noexcept {
    lane_state& of = lanes_[lane];
    resident_word* const words = entry_out(lane);
    std::uint64_t halves[2] = {};
    if (outputs == nullptr) return has_answer(*words, of.flag, halves[1]);
    const std::size_t elements = std::size_t{of.rows} * layout_.layer[layout_.layers - 1].outputs;
    for (std::size_t done; (done = std::size_t{of.words_taken} * resident_word_elements) < elements; ++of.words_taken) {
        resident_word& word = words[of.words_taken];
        if (!has_answer(word, of.flag, halves[1])) {
            fetch_of_next(of, lane);
            return false;
        }
        halves[0] = std::atomic_ref(word.low).load(std::memory_order_relaxed);
        std::memcpy(outputs + done, halves, std::min<std::size_t>(resident_word_elements, elements - done) * 2);
    }
    return true;
}

}  // namespace sluice::kernels
