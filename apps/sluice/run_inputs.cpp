// SPDX-License-Identifier: Apache-2.0
#include "run_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "input_files.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/io/file_memory.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse(const io::npy_view& file, const char* field, const std::string& why) {
    throw file_error(file.path(), file_error::no_offset, field, why);
}

std::vector<double> read_labels(const io::npy_view& view, row_range range) {
    auto labels = io::vector_for<double>(view.path(), view.data_offset(), "labels", range.count);
    if (view.element_type() == io::dtype::f64) {  // as they are: a float would round them
        const auto bytes = view.row_range(range.first, range.count);
        if (!bytes.empty()) std::memcpy(labels.data(), bytes.data(), bytes.size());
    } else {
        auto narrow = io::vector_for<float>(view.path(), view.data_offset(), "labels", range.count);
        view.read_rows(range.first, narrow);
        labels.assign(narrow.begin(), narrow.end());
    }
    return labels;
}

}  // namespace

input_rows::input_rows(const run_options& options, std::size_t width) {
    const input_source source = source_of(options.input);
    const input_options how = parse_input_options(options, {source});
    if (source.kind == input_kind::npy) {
        file_ = std::make_shared<const io::npy_file>(source.file);
    } else {
        const nn::dimension rows{.length = {}, .name = "rows"}, features{.length = width, .name = {}};
        read_ = read_input(source, {"input", io::dtype::f32, std::vector{rows, features}}, how);
    }
    const auto refuse = [&](const std::string& why) {
        throw file_error(options.input, file_error::no_offset, "shape", why);
    };
    const std::vector<std::size_t>& shape = file_ ? file_->view().shape() : read_.shape();
    if (shape.size() != 2) refuse("the input must have two dimensions, rows and features");
    if (shape[0] == 0) refuse("there are no rows");
    if (shape[1] != width) {
        refuse("rows have " + std::to_string(shape[1]) + " values, the network takes " + std::to_string(width));
    }
}

nn::host_rows input_rows::rows(row_range range) const {
    if (!file_) {
        const std::size_t width = read_.shape()[1];
        return {read_.values<float>().subspan(range.first * width, range.count * width), read_.host_owner()};
    }
    const io::npy_view& view = file_->view();
    const std::size_t size = range.count * view.row_elements();
    const std::span<const std::byte> bytes = view.row_range(range.first, range.count);
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
    if (view.element_type() == io::dtype::f32 && aligned)
        return {std::span(reinterpret_cast<const float*>(bytes.data()), size), file_};
    auto converted = io::vector_for<float>(view.path(), view.data_offset(), "a batch of its rows", size);
    view.read_rows(range.first, converted);
    return converted;
}

void input_rows::release_until(std::size_t first, std::size_t done) {
    if (!file_) return;
    constexpr std::size_t step_bytes = std::size_t{32} << 20;  // each call interrupts every core
    const std::size_t from = std::max(first, released_);
    if ((done - from) * file_->view().row_bytes() < step_bytes) return;
    file_->forget_rows(from, done - from);
    released_ = done;
}

label_reader::label_reader(const std::filesystem::path& path, std::size_t rows, row_range range, std::size_t classes)
    : first_(range.first) {
    const io::npy_file file(path);
    const io::npy_view& view = file.view();
    if (view.shape().size() != 1 || view.rows() != rows) {
        refuse(view, "shape", "there must be one label for each of the " + std::to_string(rows) + " input rows");
    }
    if (view.element_type() == io::dtype::f16 || view.element_type() == io::dtype::boolean) {
        refuse(view, "descr", "labels are numbers of classes");
    }
    labels_ = read_labels(view, range);
    file.file().require_unchanged();  // they are read now and never again
    for (std::size_t i = 0; i < labels_.size(); ++i) {
        const double label = labels_[i];
        if (label >= 0 && label < static_cast<double>(classes) && label == std::floor(label)) continue;
        refuse(
            view, "data",
            "label of row " + std::to_string(first_ + i) + " is not a class from 0 to " + std::to_string(classes - 1));
    }
}

std::size_t label_reader::count_correct(std::size_t first, std::span<const float> outputs, std::size_t width) const {
    std::size_t correct = 0;
    for (std::size_t row = 0; row * width < outputs.size(); ++row) {
        const auto scores = outputs.subspan(row * width, width);
        // A row with NaN is no answer at all.
        if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) continue;
        const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
        correct += static_cast<double>(best) == labels_[first - first_ + row] ? 1 : 0;
    }
    return correct;
}

reference_reader::reference_reader(const std::filesystem::path& path, std::size_t rows, std::size_t outputs)
    : file_(path) {
    const io::npy_view& view = file_.view();
    if (view.shape() != std::vector<std::size_t>{rows, outputs}) {
        refuse(view, "shape",
               "the reference must have " + std::to_string(rows) + " rows of " + std::to_string(outputs));
    }
}

float reference_reader::largest_difference(std::size_t first, std::span<const float> outputs) const {
    const io::npy_view& view = file_.view();
    auto expected = io::vector_for<float>(view.path(), view.data_offset(), "a batch of its rows", outputs.size());
    view.read_rows(first, expected);
    float largest = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == expected[i]) continue;  // infinities too, whose difference is NaN
        largest = larger_difference(largest, std::abs(outputs[i] - expected[i]));
        if (std::isnan(largest)) break;
    }
    return largest;
}

output_check::output_check(const run_options& options, std::size_t rows, row_range range, std::size_t outputs)
    : outputs_(outputs) {
    if (options.labels) {
        labels_.emplace(*options.labels, rows, range, outputs);
        correct_ = 0;
    }
    if (options.reference) {
        reference_.emplace(*options.reference, rows, outputs);
        largest_difference_ = 0.0f;
    }
}

void output_check::take(std::size_t first, std::span<const float> outputs) {
    if (labels_) *correct_ += labels_->count_correct(first, outputs, outputs_);
    if (reference_) {
        const float difference = reference_->largest_difference(first, outputs);
        largest_difference_ = larger_difference(*largest_difference_, difference);
    }
}

float larger_difference(float left, float right) noexcept {
    if (std::isnan(left)) return left;
    return right <= left ? left : right;  // a NaN on the right is not
}

}  // namespace sluice::app
