// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/tensor_contents.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "serve/grpc/infer_message.hpp"
#include "serve/request_checks.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

constexpr std::uint32_t contents_of_tensor = 5;  // the number of the field in inference.proto

// How a field stores its elements.
enum class storage : unsigned char { none, varint, fixed32, fixed64, bytes };

struct field_kind {
    const char* name;
    storage stored;
};

// By their numbers.
constexpr std::array<field_kind, 9> kinds{{{"", storage::none},
                                           {"bool_contents", storage::varint},
                                           {"int_contents", storage::varint},
                                           {"int64_contents", storage::varint},
                                           {"uint_contents", storage::varint},
                                           {"uint64_contents", storage::varint},
                                           {"fp32_contents", storage::fixed32},
                                           {"fp64_contents", storage::fixed64},
                                           {"bytes_contents", storage::bytes}}};

// 0: none.
std::uint32_t field_of(io::dtype type) {
    switch (type) {
        case io::dtype::boolean: return 1;
        case io::dtype::i8:
        case io::dtype::i16:
        case io::dtype::i32: return 2;
        case io::dtype::i64: return 3;
        case io::dtype::u8:
        case io::dtype::u16:
        case io::dtype::u32: return 4;
        case io::dtype::u64: return 5;
        case io::dtype::f32: return 6;
        case io::dtype::f64: return 7;
        case io::dtype::f16:
        case io::dtype::bf16: break;
    }
    return 0;
}

wire_type type_of(storage stored) {
    switch (stored) {
        case storage::fixed32: return wire_type::fixed32;
        case storage::fixed64: return wire_type::fixed64;
        case storage::bytes: return wire_type::bytes;
        case storage::varint:
        case storage::none: break;
    }
    return wire_type::varint;
}

std::size_t count_varints(std::span<const std::byte> packed) {
    std::size_t count = 0;
    for (wire_reader each(packed); each.left() != 0; ++count) each.read_varint();
    return count;
}

std::size_t count_fixed(std::span<const std::byte> packed, std::size_t size) {
    if (packed.size() % size != 0) refuse_message("it ends in a number");
    return packed.size() / size;
}

// Numbers of variable length, as elements of one type. `Wide`: what the field has.
template <typename T, typename Wide>
class varint_elements {
public:
    explicit varint_elements(std::span<std::byte> to) : to_(to) {}

    void add(std::uint64_t number) {
        const auto wide = static_cast<Wide>(number);
        const auto value = static_cast<T>(wide);
        if (static_cast<Wide>(value) != wide && !is_beyond) {
            is_beyond = true;
            beyond = static_cast<std::int64_t>(wide);
        }
        std::memcpy(to_.data() + at_, &value, sizeof(T));
        at_ += sizeof(T);
    }

    bool is_beyond = false;
    std::int64_t beyond = 0;  // the first element that is out of the range

private:
    std::span<std::byte> to_;
    std::size_t at_ = 0;
};

class truth_elements {
public:
    explicit truth_elements(std::span<std::byte> to) : to_(to) {}

    void add(std::uint64_t number) { to_[at_++] = number != 0 ? std::byte{1} : std::byte{0}; }

    static constexpr bool is_beyond = false;
    static constexpr std::int64_t beyond = 0;

private:
    std::span<std::byte> to_;
    std::size_t at_ = 0;
};

template <typename T>
std::string range_text() {
    return std::to_string(std::numeric_limits<T>::min()) + " to " + std::to_string(std::numeric_limits<T>::max());
}

}  // namespace

void contents_reader::add(wire_reader contents) {
    for (wire_reader::field field; contents.next(field);) {
        const storage stored = field.number < kinds.size() ? kinds[field.number].stored : storage::none;
        if (stored == storage::none) {
            contents.skip(field);
            continue;
        }
        part& to = parts_[field.number];
        if (field.type == type_of(stored)) {  // one element
            contents.skip(field);
            ++to.count;
            ++to.chunks;
            to.packed = {};
        } else if (field.type == wire_type::bytes) {
            to.packed = contents.read_bytes();
            ++to.chunks;
            to.count += stored == storage::fixed32   ? count_fixed(to.packed, 4)
                        : stored == storage::fixed64 ? count_fixed(to.packed, 8)
                                                     : count_varints(to.packed);
        } else {
            contents.skip(field);
        }
    }
}

bool contents_reader::is_empty() const noexcept {
    return std::ranges::all_of(parts_, [](const part& each) { return each.count == 0; });
}

std::string contents_reader::filled_fields() const {
    std::string all;
    for (std::size_t i = 0; i < fields; ++i)
        if (parts_[i].count != 0) all += (all.empty() ? "" : ", ") + std::string(kinds[i].name);
    return all;
}

// The field that the datatype needs, or "" where it has none; null: only that one has elements.
const char* contents_reader::why_wrong(io::dtype type) const {
    const std::uint32_t wanted = field_of(type);
    if (wanted == 0) return "";
    for (std::size_t i = 0; i < fields; ++i)
        if (i != wanted && parts_[i].count != 0) return kinds[wanted].name;
    return nullptr;
}

void contents_reader::refuse(io::dtype type, const char* field, const std::string& where) const {
    const std::string datatype(datatype_of(type));
    if (*field == '\0') {
        refuse_request(where + ": the datatype " + datatype +
                       " has no field in the contents; send it in raw_input_contents");
    }
    refuse_request(where + " has " + filled_fields() + "; the datatype " + datatype + " needs " + field +
                   ", or raw_input_contents");
}

void contents_reader::refuse_beyond(io::dtype type, std::int64_t element, const std::string& where) {
    const std::string range = type == io::dtype::i8    ? range_text<std::int8_t>()
                              : type == io::dtype::i16 ? range_text<std::int16_t>()
                              : type == io::dtype::u8  ? range_text<std::uint8_t>()
                                                       : range_text<std::uint16_t>();
    refuse_request(where + ": the element " + std::to_string(element) + " is out of the range from " + range);
}

// The chunks of one field, in the order of the message: of several elements, or of one. They were looked at by add().
template <typename Take>
void contents_reader::each_chunk(std::uint32_t number, const Take& take) const {
    const wire_type single = type_of(kinds[number].stored);
    wire_reader tensor = tensor_;
    for (wire_reader::field outer; tensor.next(outer);) {
        if (!outer.is(contents_of_tensor, wire_type::bytes)) {
            tensor.skip(outer);
            continue;
        }
        wire_reader contents = tensor.read_message();
        for (wire_reader::field field; contents.next(field);) {
            if (field.is(number, wire_type::bytes)) {
                take(contents.read_bytes());
            } else if (field.is(number, single)) {
                const std::span<const std::byte> before = contents.rest();
                contents.skip(field);
                take(before.first(before.size() - contents.left()));
            } else {
                contents.skip(field);
            }
        }
    }
}

std::span<const std::byte> contents_reader::read_whole(io::dtype type, charged_memory& to,
                                                       const std::shared_ptr<request_budget>& budget,
                                                       std::int64_t& beyond, bool& is_beyond) const {
    const std::uint32_t number = field_of(type);
    const part& its = parts_[number];
    if (its.count == 0) return {};
    const bool is_fixed = kinds[number].stored != storage::varint;
    if (is_fixed && its.chunks == 1 && !its.packed.empty()) return its.packed;
    const std::span<std::byte> made = to.add(budget, its.count * io::size_of(type));
    if (is_fixed) {
        std::size_t at = 0;
        each_chunk(number, [&](std::span<const std::byte> chunk) {
            if (!chunk.empty()) std::memcpy(made.data() + at, chunk.data(), chunk.size());
            at += chunk.size();
        });
        return made;
    }
    const auto decode = [&](auto elements) {
        each_chunk(number, [&](std::span<const std::byte> chunk) {
            for (wire_reader each(chunk); each.left() != 0;) elements.add(each.read_varint());
        });
        is_beyond = elements.is_beyond;
        beyond = elements.beyond;
    };
    switch (type) {
        case io::dtype::boolean: decode(truth_elements(made)); break;
        case io::dtype::i8: decode(varint_elements<std::int8_t, std::int32_t>(made)); break;
        case io::dtype::i16: decode(varint_elements<std::int16_t, std::int32_t>(made)); break;
        case io::dtype::i32: decode(varint_elements<std::int32_t, std::int32_t>(made)); break;
        case io::dtype::i64: decode(varint_elements<std::int64_t, std::int64_t>(made)); break;
        case io::dtype::u8: decode(varint_elements<std::uint8_t, std::uint32_t>(made)); break;
        case io::dtype::u16: decode(varint_elements<std::uint16_t, std::uint32_t>(made)); break;
        case io::dtype::u32: decode(varint_elements<std::uint32_t, std::uint32_t>(made)); break;
        case io::dtype::u64: decode(varint_elements<std::uint64_t, std::uint64_t>(made)); break;
        default: break;  // stored as they are
    }
    return made;
}

void contents_reader::write_codes(std::span<std::byte> to, const nn::text_codes& codes, const tensor_shape& shape,
                                  const std::string& where) const {
    for (std::size_t i = 0; i < fields; ++i) {
        if (i != text_field && parts_[i].count != 0)
            refuse_request(where + " has " + filled_fields() + "; the datatype BYTES needs " + kinds[text_field].name +
                           ", or raw_input_contents");
    }
    const std::size_t count = to.size() / sizeof(std::int64_t);
    if (texts() != count) {
        refuse_request(where + ": the shape " + to_string(shape) + " has " + std::to_string(count) +
                       " elements; the data has " + std::to_string(texts()));
    }
    std::size_t at = 0;
    each_chunk(text_field, [&](std::span<const std::byte> text) {
        const std::int64_t code = codes.code_of({reinterpret_cast<const char*>(text.data()), text.size()});
        std::memcpy(to.data() + at, &code, sizeof(code));
        at += sizeof(code);
    });
}

}  // namespace sluice::serve
