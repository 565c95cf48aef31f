// SPDX-License-Identifier: Apache-2.0
#include "cuda/interprocess_layout.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice::cuda::interprocess {
namespace {

constexpr std::uint32_t current_version = 1;
constexpr std::array<char, 8> magic{'s', 'l', 'u', 'i', 'c', 'e', 'I', 'P'};

enum class handle_kind : std::uint32_t { tensor = 1, event = 2 };

// The structures below are the bytes of a handle: members are aligned, without gaps.
struct head {
    std::array<char, 8> is_handle = magic;
    std::uint32_t version = current_version;
    handle_kind kind{};
    std::uint64_t sum = 0;  // of all bytes of the handle, with 0 here
    origin from;
};

struct tensor_layout {
    head begin;
    driver_handle allocation{};
    std::uint64_t allocation_bytes = 0;
    std::uint64_t offset = 0;
    std::uint8_t type_code = 0;
    std::uint8_t type_bits = 0;
    std::uint16_t flags = 0;
    std::uint32_t rank = 0;
    std::array<std::uint64_t, shape::max_rank> extents{};
};
struct event_layout {
    head begin;
    driver_handle event{};
};

constexpr std::uint16_t may_be_written = 1;

static_assert(std::has_unique_object_representations_v<tensor_layout> &&
              sizeof(tensor_layout) <= sizeof(tensor_handle));
static_assert(std::has_unique_object_representations_v<event_layout> && sizeof(event_layout) <= sizeof(event_handle));
static_assert(std::is_trivially_copyable_v<tensor_handle> && std::is_trivially_copyable_v<event_handle>);

// FNV-1a over the handle, with zeros in place of the sum.
std::uint64_t sum_of(std::span<const std::byte> handle) {
    constexpr std::size_t begin = offsetof(head, sum), end = begin + sizeof(head::sum);
    std::uint64_t sum = 0xcbf29ce484222325u;
    for (std::size_t i = 0; i < handle.size(); ++i) {
        const bool is_sum = i >= begin && i < end;
        sum = (sum ^ (is_sum ? 0u : std::to_integer<std::uint64_t>(handle[i]))) * 0x100000001b3u;
    }
    return sum;
}

template <typename Handle, typename Layout>
Handle sealed(const Layout& layout) {
    Handle made;
    std::memcpy(made.bytes.data(), &layout, sizeof(layout));
    seal(made.bytes);
    return made;
}

std::string_view name_of(handle_kind kind) {
    switch (kind) {
        case handle_kind::tensor: return "a tensor";
        case handle_kind::event: return "an event";
    }
    return "an object of a kind that is not known";
}

std::string to_text(const identity& gpu) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < gpu.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        const auto value = std::to_integer<unsigned>(gpu[i]);
        text += digits[value >> 4];
        text += digits[value & 15];
    }
    return text;
}

// What a handle says, checked in the order in which it can be relied on.
class reader {
public:
    explicit reader(const error_context& context) : context_(context) {}

    template <typename Layout, typename Handle>
    Layout layout_of(const Handle& from, handle_kind kind, const origin& here) const {
        Layout layout;
        std::memcpy(&layout, from.bytes.data(), sizeof(layout));
        require_whole(from.bytes, layout.begin, kind);
        require_usable(layout.begin.from, here);
        return layout;
    }

    void require_element(const tensor_layout& is, const sluice::detail::exported_element& element) const {
        if (is.type_code != element.type.code || is.type_bits != element.type.bits) {
            refuse("the handle's tensor has elements of " + type_text(is.type_code, is.type_bits) +
                   "; imported are elements of " + type_text(element.type.code, element.type.bits));
        }
        if ((is.flags & ~may_be_written) != 0)
            refuse("the handle has flags that are not known: " + std::to_string(is.flags), errc::unsupported);
        if (is.flags != may_be_written && element.is_written)
            refuse("the handle's tensor is shared and only to be read: import it as const, import_tensor<const T>");
    }

    shape shape_within_allocation(const tensor_layout& is) const {
        if (is.rank > shape::max_rank) refuse("the handle's tensor has " + std::to_string(is.rank) + " dimensions");
        std::array<std::size_t, shape::max_rank> extents{};
        std::copy_n(is.extents.begin(), is.rank, extents.begin());
        const bool is_empty = std::find(extents.begin(), extents.begin() + is.rank, 0u) != extents.begin() + is.rank;
        std::size_t bytes = is_empty ? 0 : is.type_bits / 8u;
        for (std::size_t i = 0; i < is.rank && !is_empty; ++i) {
            if (__builtin_mul_overflow(bytes, extents[i], &bytes))
                refuse("the lengths of the handle's tensor have a product that no memory holds");
        }
        if (!is_empty && (is.offset > is.allocation_bytes || bytes > is.allocation_bytes - is.offset)) {
            refuse("the handle's tensor has " + std::to_string(bytes) + " bytes at " + std::to_string(is.offset) +
                   ", and its allocation has " + std::to_string(is.allocation_bytes));
        }
        return shape(std::span<const std::size_t>(extents.data(), is.rank));
    }

private:
    void require_whole(std::span<const std::byte> all, const head& begin, handle_kind kind) const {
        if (begin.is_handle != magic) refuse("these bytes are no handle of Sluice");
        if (begin.version != current_version) {
            refuse("the handle has version " + std::to_string(begin.version) + "; version " +
                       std::to_string(current_version) + " is understood: both processes must use the same Sluice",
                   errc::unsupported);
        }
        if (begin.kind != kind)
            refuse("this is the handle of " + std::string(name_of(begin.kind)) + ", not of " +
                   std::string(name_of(kind)));
        if (begin.sum != sum_of(all)) refuse("the handle is damaged: its sum does not match its bytes");
    }
    void require_usable(const origin& from, const origin& here) const {
        if (from.machine != here.machine)
            refuse("the handle was made on another machine, or before this one was last started");
        if (from.process == here.process) {
            refuse(
                "this process made the handle itself, and CUDA opens handles in other processes only: use the "
                "object that the handle was made of");
        }
        if (from.gpu != here.gpu) {
            refuse("the handle is for the GPU with UUID " + to_text(from.gpu) + "; this is " + to_text(here.gpu) +
                   ": name the same GPU in both processes");
        }
    }
    static std::string type_text(unsigned code, unsigned bits) {
        constexpr std::array<std::string_view, 7> codes{"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
        return code < codes.size() ? std::string(codes[code]) + std::to_string(bits)
                                   : "type " + std::to_string(code) + " with " + std::to_string(bits) + " bits";
    }
    [[noreturn]] void refuse(const std::string& why, errc code = errc::invalid_argument) const {
        throw error(code, why, context_);
    }

    const error_context& context_;
};

// The kernel's number of this start of the system, a UUID in text; zeros where the system has none.
identity machine_identity() {
    identity made{};
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::size_t digits = 0;
    for (char each = 0; digits < 2 * made.size() && file.get(each);) {
        const auto value = std::string_view("0123456789abcdef").find(each);
        if (value == std::string_view::npos) continue;
        std::byte& to = made[digits++ / 2];
        to = (to << 4) | static_cast<std::byte>(value);
    }
    return made;
}

// Random: numbers of processes differ between containers.
identity process_identity() {
    std::random_device source;
    std::array<unsigned, 4> drawn{source(), source(), source(), source()};
    identity made{};
    static_assert(sizeof(drawn) == sizeof(made));
    std::memcpy(made.data(), drawn.data(), sizeof(made));
    return made;
}

}  // namespace

origin origin_here(const identity& gpu) {
    static const identity machine = machine_identity(), process = process_identity();
    return {machine, process, gpu};
}

void seal(std::span<std::byte> handle) {
    const std::uint64_t sum = sum_of(handle);
    std::memcpy(handle.data() + offsetof(head, sum), &sum, sizeof(sum));
}

tensor_handle write(const tensor_contents& contents) {
    tensor_layout layout;
    layout.begin.kind = handle_kind::tensor;
    layout.begin.from = contents.from;
    layout.allocation = contents.allocation;
    layout.allocation_bytes = contents.allocation_bytes;
    layout.offset = contents.offset;
    layout.type_code = contents.element.type.code;
    layout.type_bits = contents.element.type.bits;
    layout.flags = contents.element.is_written ? may_be_written : std::uint16_t{0};
    layout.rank = static_cast<std::uint32_t>(contents.shape.rank());
    for (std::size_t i = 0; i < contents.shape.rank(); ++i) layout.extents[i] = contents.shape[i];
    return sealed<tensor_handle>(layout);
}

event_handle write(const event_contents& contents) {
    event_layout layout;
    layout.begin.kind = handle_kind::event;
    layout.begin.from = contents.from;
    layout.event = contents.event;
    return sealed<event_handle>(layout);
}

tensor_contents read(const tensor_handle& from, const origin& here, sluice::detail::exported_element element,
                     const error_context& context) {
    const reader check(context);
    const auto layout = check.layout_of<tensor_layout>(from, handle_kind::tensor, here);
    check.require_element(layout, element);
    return {layout.begin.from,
            layout.allocation,
            layout.allocation_bytes,
            layout.offset,
            check.shape_within_allocation(layout),
            element};
}

event_contents read(const event_handle& from, const origin& here, const error_context& context) {
    const auto layout = reader(context).layout_of<event_layout>(from, handle_kind::event, here);
    return {layout.begin.from, layout.event};
}

}  // namespace sluice::cuda::interprocess
