// SPDX-License-Identifier: Apache-2.0
#include "c/types.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "c/status.hpp"
#include "sluice/nn/adopt_tensor.hpp"
#include "sluice/runtime/adopt.hpp"

namespace sluice::c {
namespace {

// What a tensor of the caller says; `refuse_it` throws, with the name of the tensor.
struct checked_tensor {
    io::dtype type;
    std::size_t rank, bytes;
    std::array<std::size_t, most_dimensions> lengths;

    std::span<const std::size_t> shape() const noexcept { return {lengths.data(), rank}; }
    std::vector<std::size_t> shape_vector() const { return {shape().begin(), shape().end()}; }
};
template <typename Refuse>
checked_tensor checked(const sluice_tensor& given, const Refuse& refuse_it) {
    const std::optional<io::dtype> type = dtype_from(given.type);
    if (!type) refuse_it("has type " + std::to_string(given.type) + ", which is none of sluice_type");
    require_rank(given.rank, refuse_it);
    if (given.shape == nullptr && given.rank != 0) refuse_it("has dimensions, and its shape is null");
    checked_tensor made{*type, given.rank, 0, {}};
    for (std::size_t i = 0; i < given.rank; ++i) {
        if (given.shape[i] < 0)
            refuse_it("has the length " + std::to_string(given.shape[i]) + " in dimension " + std::to_string(i));
        made.lengths[i] = static_cast<std::size_t>(given.shape[i]);
    }
    const std::optional<std::size_t> bytes = io::byte_count(made.shape(), *type);
    if (!bytes) refuse_it("has a shape for which there is no memory");
    made.bytes = *bytes;
    if (given.data == nullptr && made.bytes != 0) refuse_it("has elements, and its data is null");
    return made;
}

nn::any_tensor copied(const sluice_tensor& given, const checked_tensor& what) {
    std::byte* to = nullptr;
    nn::any_tensor copy = nn::any_tensor::make_on_host(what.type, what.shape_vector(), to);
    if (what.bytes != 0) std::memcpy(to, given.data, what.bytes);
    return copy;
}

class input_reader {
public:
    input_reader(const loaded_network& network, std::size_t index, std::string_view function)
        : network_(network), index_(index), function_(function) {}

    checked_tensor check(const sluice_tensor& given) const {
        const checked_tensor what = checked(given, [this](const std::string& why) { refuse_input(why); });
        if (given.memory != SLUICE_HOST && given.memory != SLUICE_DEVICE)
            refuse_input("has memory " + std::to_string(given.memory) + ", which is none of sluice_memory");
        return what;
    }
    nn::any_tensor read(const sluice_tensor& given) const {
        const checked_tensor what = check(given);
        return given.memory == SLUICE_DEVICE ? on_device(given, what) : copied(given, what);
    }

private:
    [[noreturn]] void refuse_input(const std::string& why, errc code = errc::invalid_argument) const {
        const std::vector<nn::value_info>& all = network_.network.inputs();
        const std::string name = index_ < all.size() ? " '" + all[index_].name + "'" : "";
        refuse(function_, "input " + std::to_string(index_) + name + " " + why, code);
    }

    nn::any_tensor on_device(const sluice_tensor& given, const checked_tensor& what) const {
        if (network_.on.kind() != device_kind::cuda) {
            refuse_input("is in the memory of a GPU, and the network is on " + network_.on.name(), errc::unsupported);
        }
        return nn::adopt_tensor(network_.on, what.type, what.shape_vector(), given.data, borrowed(given.data));
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

namespace {

void require_inputs(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                    std::string_view function) {
    if (count != 0) require(inputs, function, "inputs");
    if (const std::size_t needed = network.network.inputs().size(); count != needed) {
        refuse(function,
               "the network takes " + std::to_string(needed) + " inputs, and is given " + std::to_string(count),
               errc::shape_mismatch);
    }
}

}  // namespace

std::vector<nn::any_tensor> inputs_from(const loaded_network& network, const sluice_tensor* inputs, std::size_t count,
                                        std::string_view function) {
    require_inputs(network, inputs, count, function);
    std::vector<nn::any_tensor> made;
    made.reserve(count);
    for (std::size_t i = 0; i < count; ++i) made.push_back(input_reader(network, i, function).read(inputs[i]));
    return made;
}

bool call_views::take_inputs(const loaded_network& network, const sluice_tensor* from, std::size_t count,
                             std::string_view function) {
    require_inputs(network, from, count, function);
    return take_inputs(network, count, [](std::size_t i) { return i; }, from, function);
}

bool call_views::take_inputs(const loaded_network& network, std::span<const std::size_t> which,
                             const sluice_tensor* from, std::string_view function) {
    return take_inputs(network, which.size(), [which](std::size_t i) { return which[i]; }, from, function);
}

template <typename Which>
bool call_views::take_inputs(const loaded_network& network, std::size_t count, const Which& which,
                             const sluice_tensor* from, std::string_view function) {
    inputs_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const checked_tensor what = input_reader(network, which(i), function).check(from[i]);
        if (from[i].memory == SLUICE_DEVICE || what.rank > nn::detail::view_form::most_dimensions) {
            inputs_.clear();
            return false;
        }
        inputs_.emplace_back(what.type, from[i].data, what.shape());
    }
    return true;
}

bool call_views::take_outputs(const loaded_network& network, const sluice_buffer* from, std::size_t count,
                              std::string_view function) {
    if (count != 0) require(from, function, "outputs");
    if (const std::size_t given = network.network.outputs().size(); count != given) {
        refuse(function,
               "the network gives " + std::to_string(given) + " outputs, and there are buffers for " +
                   std::to_string(count),
               errc::shape_mismatch);
    }
    outputs_.reserve(count);
    bool are_viewed = true;
    for (std::size_t i = 0; i < count; ++i) {
        const auto refuse_it = [&](const std::string& why) {
            refuse(function, "buffer " + std::to_string(i) + " " + why);
        };
        const sluice_buffer& to = from[i];
        const nn::value_info& its = network.network.outputs()[i];
        const auto refuse_form = [&](const std::string& why) {
            refuse(function, "buffer " + std::to_string(i) + " " + why, errc::shape_mismatch);
        };
        if (!dtype_from(to.type))
            refuse_form("is of an unknown type, and the output is " + std::string(io::to_string(its.type)));
        // Before the lengths are read: there may be fewer of them.
        if (its.shape && its.shape->size() != to.rank)
            refuse_form("has " + std::to_string(to.rank) + " dimensions, and the output has " +
                        std::to_string(its.shape->size()));
        const checked_tensor what = checked({to.data, to.shape, to.rank, to.type, SLUICE_HOST}, refuse_it);
        are_viewed = are_viewed && to.rank <= nn::detail::view_form::most_dimensions;
        if (are_viewed) outputs_.emplace_back(what.type, to.data, what.shape());
    }
    if (!are_viewed) outputs_.clear();
    return are_viewed;
}

std::vector<nn::input_shape> shapes_from(const sluice_input_shape* from, std::size_t count, std::string_view function) {
    if (count != 0) require(from, function, "shapes");
    require_count(count, function, "shapes");
    std::vector<nn::input_shape> made;
    for (std::size_t i = 0; i < count; ++i) {
        nn::input_shape& each = made.emplace_back(nn::input_shape{&require(from[i].name, function, "name"), {}});
        const auto refuse_it = [&](const std::string& why) {
            refuse(function, "the shape of '" + std::string(each.name) + "' " + why);
        };
        require_rank(from[i].rank, refuse_it);
        if (from[i].shape == nullptr && from[i].rank != 0) refuse_it("has dimensions, and is null");
        for (std::size_t d = 0; d < from[i].rank; ++d) {
            if (from[i].shape[d] < 0)
                refuse_it("has the length " + std::to_string(from[i].shape[d]) + " in dimension " + std::to_string(d));
            each.shape.push_back(static_cast<std::size_t>(from[i].shape[d]));
        }
    }
    return made;
}

nn::any_tensor host_copy(const sluice_tensor& from, std::string_view function) {
    const auto refuse_it = [function](const std::string& why) { refuse(function, "the tensor " + why); };
    const checked_tensor what = checked(from, refuse_it);
    if (from.memory != SLUICE_HOST) refuse_it("is not in host memory");
    return copied(from, what);
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
