// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/operator_call.hpp"

#include <algorithm>
#include <utility>

#include "nn/operators/node_call.hpp"
#include "nn/operators/own.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/own_operator.hpp"
#include "sluice/runtime/execution_context.hpp"

namespace sluice::nn {
namespace {

// As a matrix: the last dimension has the columns.
struct matrix_lengths {
    std::size_t rows = 1, columns = 1;
};
matrix_lengths as_matrix(const std::vector<std::size_t>& shape) {
    matrix_lengths made;
    if (shape.empty()) return made;
    made.columns = shape.back();
    for (std::size_t d = 0; d + 1 < shape.size(); ++d) made.rows *= shape[d];
    return made;
}

std::string number_of(std::size_t i) { return std::to_string(i); }

}  // namespace

// --- what launches run over -----------------------------------------------------------------------------------

tensor_tiles in_tiles(const new_tensor& of, std::size_t rows, std::size_t columns) {
    if (rows == 0 || columns == 0) {
        throw error(errc::shape_mismatch, "tiles of " + number_of(rows) + " rows and " + number_of(columns) +
                                              " columns of " + to_string(of.value()));
    }
    return {of, rows, columns};
}

launch_range each_of(const any_tensor& elements, source_location location) {
    const matrix_lengths size = as_matrix(elements.shape());
    return {sluice::shape{size.rows, size.columns}, false, location};
}

launch_range each_of(const tensor_tiles& tiles, source_location location) {
    const matrix_lengths size = as_matrix(tiles.whole.shape());
    const auto count = [](std::size_t length, std::size_t of_tile) {
        return length / of_tile + (length % of_tile != 0 ? 1 : 0);
    };
    return {sluice::shape{count(size.rows, tiles.rows), count(size.columns, tiles.columns)}, true, location};
}

// --- inputs and attributes ------------------------------------------------------------------------------------

std::string operator_call::label() const { return node_.label(); }
std::int64_t operator_call::version() const { return node_.opset(); }
std::size_t operator_call::input_count() const noexcept { return node_.input_count(); }
bool operator_call::has_input(std::size_t i) const noexcept { return node_.has_input(i); }

const any_tensor& operator_call::input(std::size_t i) const {
    if (!has_input(i)) refuse("leaves out its input " + number_of(i) + ", which its operator reads");
    return node_.input(i);
}

std::vector<std::int64_t> operator_call::host_integers(std::size_t i) const {
    static_cast<void>(input(i));
    if (std::ranges::find(what_.host_inputs, i) == what_.host_inputs.end()) {
        refuse("its operator reads the numbers of input " + number_of(i) +
                   ", which own_operator::host_inputs does not name",
               errc::invalid_argument);
    }
    return node_.host_integers(i);
}

const attribute* operator_call::find(std::string_view name) const {
    if (std::ranges::find(what_.attributes, name) == what_.attributes.end()) {
        std::string known;
        for (const std::string& each : what_.attributes) known += (known.empty() ? "" : ", ") + each;
        refuse("its operator asks for the attribute " + in_quotes(name) +
                   ", which own_operator::attributes does not name" + (known.empty() ? "" : "; it names " + known),
               errc::invalid_argument);
    }
    const auto found = node_.what().attributes.find(name);
    return found != node_.what().attributes.end() ? &found->second : nullptr;
}

bool operator_call::has_attribute(std::string_view name) const { return find(name) != nullptr; }

void operator_call::refuse_attribute(std::string_view name) const {
    refuse("has the attribute " + in_quotes(name) + " with another type than its operator's");
}
void operator_call::refuse_missing(std::string_view name) const {
    refuse("does not have the attribute " + in_quotes(name) + ", which its operator needs");
}

std::size_t operator_call::axis(std::int64_t value, std::size_t rank) const { return node_.axis(value, rank); }

// --- outputs --------------------------------------------------------------------------------------------------

bool operator_call::wants_output(std::size_t i) const noexcept { return node_.wants_output(i); }

void operator_call::require_new_output(std::size_t i) {
    if (i >= what_.most_outputs) {
        refuse("its operator makes the output " + number_of(i) + "; own_operator::most_outputs is " +
                   number_of(what_.most_outputs),
               errc::invalid_argument);
    }
    if (is_made_.size() <= i) is_made_.resize(i + 1);
    if (is_made_[i]) refuse("its operator makes the output " + number_of(i) + " twice", errc::invalid_argument);
    is_made_[i] = true;
}

new_tensor operator_call::make(io::dtype type, std::vector<std::size_t> shape) const {
    return new_tensor(node_.make(type, std::move(shape)));
}

new_tensor operator_call::make_output(std::size_t i, io::dtype type, std::vector<std::size_t> shape) {
    require_new_output(i);
    new_tensor made = make(type, std::move(shape));
    if (i < node_.output_count()) node_.set_output(i, made.value());
    return made;
}

void operator_call::set_output(std::size_t i, any_tensor value) {
    require_new_output(i);
    if (!value) refuse("its operator sets the output " + number_of(i) + " to no tensor", errc::invalid_argument);
    if (node_.where() == operators::place::host && !value.is_on_host() && value.elements() != 0)
        refuse("its operator sets the output " + number_of(i) + " to a tensor that is not in host memory",
               errc::unsupported);
    if (node_.where() == operators::place::device && !value.is_on_host() && !value.is_on_device() &&
        value.elements() != 0)
        refuse("its operator sets the output " + number_of(i) + " to a tensor without elements in memory",
               errc::invalid_argument);
    if (i < node_.output_count()) node_.set_output(i, std::move(value));
}

// --- work -----------------------------------------------------------------------------------------------------

execution_context& operator_call::context() const { return node_.context(); }

bool operator_call::is_to_submit(std::size_t i, io::dtype type, const std::vector<std::size_t>& shape) {
    switch (node_.where()) {
        case operators::place::nowhere: static_cast<void>(make_output(i, type, shape)); return false;
        case operators::place::host:
            throw operators::needs_device(*node_.environment().path, file_error::no_offset, label(),
                                          "has to be computed on the host, since the numbers of its outputs are needed "
                                          "before the network runs; its operator submits operations, which run on a "
                                          "device only",
                                          errc::unsupported);
        case operators::place::device: break;
    }
    require_new_output(i);
    return true;
}

void operator_call::set_submitted(std::size_t i, const std::vector<std::size_t>& shape, any_tensor made) {
    const bool fits =
        shape.size() > sluice::shape::max_rank ? made.elements() == io::element_count(shape) : made.shape() == shape;
    if (!fits) {
        refuse("its operator says that the output " + number_of(i) + " has the shape " + to_string(std::span(shape)) +
                   ", and the operation gives " + to_string(made),
               errc::shape_mismatch);
    }
    if (i < node_.output_count()) node_.set_output(i, made.with_shape(shape));
}

detail::launch_place operator_call::place() const {
    switch (node_.where()) {
        case operators::place::host: return {.on = {}, .is_on_host = true};
        case operators::place::device: return {.on = context().stream(), .is_on_host = false};
        case operators::place::nowhere: break;
    }
    return {};
}

detail::placed_tensor operator_call::placed(const any_tensor& of) const {
    if (!of) refuse("its operator launches a kernel with an input that is left out", errc::invalid_argument);
    const matrix_lengths size = as_matrix(of.shape());
    detail::placed_tensor made{nullptr, nullptr, of.type(), size.rows, size.columns};
    if (of.elements() == 0 || node_.where() == operators::place::nowhere) return made;
    if (node_.where() == operators::place::host) {
        // Made by make(), or only read.
        if (of.is_on_host()) made.data = const_cast<std::byte*>(of.bytes().data());
    } else if (of.is_on_device()) {
        made.memory = of.memory();
        made.data = of.memory()->data();
    }
    if (made.data == nullptr)
        refuse(
            "its operator launches a kernel with " + to_string(of) + ", whose elements are not where the kernel runs",
            errc::invalid_argument);
    return made;
}

void detail::require_elements(io::dtype given, io::dtype expected, const error_context& context) {
    if (given == expected || (given == io::dtype::boolean && expected == io::dtype::u8)) return;
    throw error(errc::unsupported,
                "reads or writes elements of " + std::string(io::to_string(expected)) + ", and is given " +
                    std::string(io::to_string(given)),
                context);
}

void detail::submit_launch(stream on, std::string_view name, std::span<const memory_access> accesses,
                           const source_location& location, launch_command& command) {
    std::vector<memory_access> distinct;
    distinct.reserve(accesses.size());
    for (const access_mode mode : {access_mode::write, access_mode::read}) {
        for (const memory_access& each : accesses) {
            const auto is_same = [&](const memory_access& known) { return known.memory == each.memory; };
            if (each.mode == mode && each.memory != nullptr && std::ranges::none_of(distinct, is_same))
                distinct.push_back(each);
        }
    }
    on.launch({name, distinct, location}, command);
}

// --- refusals -------------------------------------------------------------------------------------------------

void operator_call::refuse(std::string_view why, errc code) const {
    throw file_error(*node_.environment().path, file_error::no_offset, label(), why, code);
}

void operator_call::refuse_type(const any_tensor& of, std::initializer_list<io::dtype> accepted) const {
    std::string list;
    for (const io::dtype each : accepted) list += (list.empty() ? "" : ", ") + std::string(io::to_string(each));
    refuse("does not take " + std::string(io::to_string(of.type())) + "; its operator takes " + list,
           errc::unsupported);
}

}  // namespace sluice::nn
