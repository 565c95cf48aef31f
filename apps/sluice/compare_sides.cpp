// SPDX-License-Identifier: Apache-2.0
#include "compare_sides.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "input_files.hpp"
#include "network_file.hpp"
#include "network_files.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/npy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::shape_mismatch, why, {"compare"}); }

bool is_array(const std::filesystem::path& file) { return file.extension() == ".npy"; }

nn::value_info whole_file(const std::filesystem::path& file) {
    const io::npy_file array(file);
    return {file.filename().string(), array.view().element_type(), {}};
}

template <typename T>
void put(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

// Whether the type is a floating-point one that holds the number.
bool write_number(std::byte* to, io::dtype type, long double number) {
    switch (type) {
        case io::dtype::f16: put(to, half(static_cast<float>(number))); break;
        case io::dtype::bf16: put(to, bfloat16(static_cast<float>(number))); break;
        case io::dtype::f32: put(to, static_cast<float>(number)); break;
        case io::dtype::f64: put(to, static_cast<double>(number)); break;
        default: return false;
    }
    return number_at(to, type) == number || std::isnan(number);
}

nn::any_tensor as_type(const nn::any_tensor& from, const nn::value_info& as, const nn::value_info& to) {
    if (from.type() == to.type) return from;
    std::byte* made_at = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(to.type, from.shape(), made_at);
    const std::size_t from_size = io::size_of(from.type()), size = io::size_of(to.type);
    for (std::size_t i = 0; i < from.elements(); ++i) {
        const long double number = number_at(from.bytes().data() + i * from_size, from.type());
        if (write_number(made_at + i * size, to.type, number)) continue;
        refuse("the inputs " + in_quotes(as.name) + ", " + std::string(io::to_string(from.type())) + ", and " +
               in_quotes(to.name) + ", " + std::string(io::to_string(to.type)) + ", cannot hold the same numbers");
    }
    return made;
}

}  // namespace

value_pairs pair_values(const std::vector<nn::value_info>& a, const std::vector<nn::value_info>& b,
                        const std::string& what) {
    if (a.size() != b.size()) {
        refuse("there are " + std::to_string(a.size()) + " and " + std::to_string(b.size()) + " " + what + ": " +
               names_of(a) + " and " + names_of(b));
    }
    value_pairs made;
    for (const nn::value_info& each : a) {
        const auto found = std::ranges::find(b, each.name, &nn::value_info::name);
        if (found == b.end()) made.is_by_place = true;
        made.of_a.push_back(static_cast<std::size_t>(found - b.begin()));
    }
    if (!made.is_by_place) return made;
    for (std::size_t i = 0; i < made.of_a.size(); ++i) made.of_a[i] = i;
    return made;
}

compared_side::compared_side(const std::filesystem::path& file, const nn::safetensors_options& options) {
    if (is_array(file)) {
        outputs_ = {whole_file(file)};
        stored_ = read_plain_input(file, outputs_.front());
    } else {
        loaded_.emplace(load_model(file, options));
        outputs_ = loaded_->body.outputs;
    }
}

void compared_side::bring(scheduling_policy& pool) {
    if (loaded_) ready_.emplace(sync(nn::make_network(std::move(*loaded_)), pool));
    loaded_.reset();
}

std::vector<nn::any_tensor> compared_side::outputs_for(const std::vector<nn::any_tensor>& inputs,
                                                       scheduling_policy* pool) const {
    if (stored_) return {stored_};
    return sync(ready_->run(inputs), *pool);
}

same_inputs::same_inputs(const compare_options& options, const compared_side& a, const compared_side& b) {
    sample_options samples = options.inputs;
    if (!options.input.empty()) samples.files.push_back(options.input);
    const nn::network& first = a.is_network() ? a.network() : b.network();
    const bool are_two = a.is_network() && b.is_network();
    value_pairs pairs;
    if (are_two) pairs = pair_values(first.inputs(), b.network().inputs(), "inputs");
    const sample_inputs made(first.inputs(), samples, [&](std::size_t i) {
        return first.is_host_input(i) || (are_two && b.network().is_host_input(pairs.of_a[i]));
    });
    const std::size_t rows = options.batch != 0 ? options.batch : made.rows_of_files().value_or(default_compared_rows);
    source_ = made.source();
    if (made.has_batch()) source_ += ", batch " + std::to_string(rows);
    of_a_ = made.of_batch(rows);
    if (!are_two) return;
    of_b_.resize(of_a_.size());
    for (std::size_t i = 0; i < of_a_.size(); ++i) {
        const std::size_t at = pairs.of_a[i];
        of_b_[at] = as_type(of_a_[i], first.inputs()[i], b.network().inputs()[at]);
    }
}

}  // namespace sluice::app
