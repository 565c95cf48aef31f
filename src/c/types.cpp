// SPDX-License-Identifier: Apache-2.0
#include "c/types.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "c/status.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/runtime/adopt.hpp"

namespace sluice::c {
namespace {

// From here on the input of a run on a CPU device is not copied. Adopted memory costs a wake-up of the runtime's
// thread, some microseconds, which is what copying that many bytes costs.
constexpr std::size_t adopted_bytes = std::size_t{64} << 10;

// What a tensor of the caller says; `refuse_it` throws, with the name of the tensor.
struct checked_tensor {
    io::dtype type;
    std::vector<std::size_t> shape;
    std::size_t bytes;
};
template <typename Refuse>
checked_tensor checked(const sluice_tensor& given, const Refuse& refuse_it) {
    const std::optional<io::dtype> type = dtype_from(given.type);
    if (!type) refuse_it("has type " + std::to_string(given.type) + ", which is none of sluice_type");
    require_rank(given.rank, refuse_it);
    if (given.shape == nullptr && given.rank != 0) refuse_it("has dimensions, and its shape is null");
    std::vector<std::size_t> shape(given.rank);
    for (std::size_t i = 0; i < given.rank; ++i) {
        if (given.shape[i] < 0)
            refuse_it("has the length " + std::to_string(given.shape[i]) + " in dimension " + std::to_string(i));
        shape[i] = static_cast<std::size_t>(given.shape[i]);
    }
    const std::optional<std::size_t> bytes = io::byte_count(shape, *type);
    if (!bytes) refuse_it("has a shape for which there is no memory");
    if (given.data == nullptr && *bytes != 0) refuse_it("has elements, and its data is null");
    return {*type, std::move(shape), *bytes};
}

nn::any_tensor copied(const sluice_tensor& given, checked_tensor what) {
    std::byte* to = nullptr;
    nn::any_tensor copy = nn::any_tensor::make_on_host(what.type, std::move(what.shape), to);
    if (what.bytes != 0) std::memcpy(to, given.data, what.bytes);
    return copy;
}

class input_reader {
public:
    input_reader(const loaded_network& network, std::size_t index, std::string_view function)
        : network_(network), index_(index), function_(function) {}

    nn::any_tensor read(const sluice_tensor& given, input_memory lasts) const {
        checked_tensor what = checked(given, [this](const std::string& why) { refuse_input(why); });
        if (given.memory == SLUICE_DEVICE) return on_device(given, what.type, std::move(what.shape));
        if (given.memory != SLUICE_HOST)
            refuse_input("has memory " + std::to_string(given.memory) + ", which is none of sluice_memory");
        if (lasts == input_memory::of_whole_run && may_adopt(given.data, what.bytes))
            return nn::adopt_tensor(network_.on, what.type, std::move(what.shape), given.data, borrowed(given.data));
        return copied(given, std::move(what));
    }

private:
    [[noreturn]] void refuse_input(const std::string& why, errc code = errc::invalid_argument) const {
        const std::vector<nn::value_info>& all = network_.network.inputs();
        const std::string name = index_ < all.size() ? " '" + all[index_].name + "'" : "";
        refuse(function_, "input " + std::to_string(index_) + name + " " + why, code);
    }

    nn::any_tensor on_device(const sluice_tensor& given, io::dtype type, std::vector<std::size_t> shape) const {
        if (network_.on.kind() != device_kind::cuda) {
            refuse_input("is in the memory of a GPU, and the network is on " + network_.on.name(), errc::unsupported);
        }
        return nn::adopt_tensor(network_.on, type, std::move(shape), given.data, borrowed(given.data));
    }

    bool may_adopt(const void* data, std::size_t bytes) const {
        if (bytes < adopted_bytes || network_.on.kind() != device_kind::cpu) return false;
        if (index_ >= network_.network.inputs().size() || network_.network.is_host_input(index_)) return false;
        return reinterpret_cast<std::uintptr_t>(data) % adopted_alignment(network_.on) == 0;
    }

    // The caller keeps the memory.
    static std::shared_ptr<const void> borrowed(const void* data) {
        static const int nothing = 0;
        return {std::shared_ptr<const void>(), data != nullptr ? data : &nothing};
    }

    const loaded_network& network_;
    const std::size_t index_;
    const std::string_view function_;
};

}  // namespace

std::optional<io::dtype> dtype_from(sluice_type type) noexcept {
    switch (type) {
        case SLUICE_F16: return io::dtype::f16;
        case SLUICE_BF16: return io::dtype::bf16;
        case SLUICE_F32: return io::dtype::f32;
        case SLUICE_F64: return io::dtype::f64;
        case SLUICE_I8: return io::dtype::i8;
        case SLUICE_U8: return io::dtype::u8;
        case SLUICE_I16: return io::dtype::i16;
        case SLUICE_U16: return io::dtype::u16;
        case SLUICE_I32: return io::dtype::i32;
        case SLUICE_U32: return io::dtype::u32;
        case SLUICE_I64: return io::dtype::i64;
        case SLUICE_U64: return io::dtype::u64;
        case SLUICE_BOOL: return io::dtype::boolean;
        default: return {};
    }
}

sluice_type type_from(io::dtype type) noexcept {
    for (sluice_type each = SLUICE_F16; each <= SLUICE_BOOL; ++each)
        if (dtype_from(each) == type) return each;
    return 0;  // a dtype that has no number yet: the test of all types finds it
}

std::vector<nn::any_tensor> inputs_from(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                                        input_memory lasts, std::string_view function) {
    if (count != 0) require(inputs, function, "inputs");
    if (const std::size_t needed = network.network.inputs().size(); count != needed) {
        refuse(function,
               "the network takes " + std::to_string(needed) + " inputs, and is given " + std::to_string(count),
               errc::shape_mismatch);
    }
    std::vector<nn::any_tensor> made;
    made.reserve(count);
    for (std::size_t i = 0; i < count; ++i) made.push_back(input_reader(network, i, function).read(inputs[i], lasts));
    return made;
}

nn::any_tensor host_copy(const sluice_tensor& from, std::string_view function) {
    const auto refuse_it = [function](const std::string& why) { refuse(function, "the tensor " + why); };
    checked_tensor what = checked(from, refuse_it);
    if (from.memory != SLUICE_HOST) refuse_it("is not in host memory");
    return copied(from, std::move(what));
}

}  // namespace sluice::c

const char* sluice_type_name(sluice_type type) {
    const auto found = sluice::c::dtype_from(type);
    return found ? sluice::io::to_string(*found).data() : "unknown type";  // they are literals
}

size_t sluice_type_size(sluice_type type) {
    const auto found = sluice::c::dtype_from(type);
    return found ? sluice::io::size_of(*found) : 0;
}
