// SPDX-License-Identifier: Apache-2.0
#include "sample_inputs.hpp"

#include <charconv>
#include <cstring>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "input_files.hpp"
#include "network_files.hpp"
#include "network_words.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/io/dtype.hpp"

namespace sluice::app {
namespace {

[[noreturn]] void refuse_sample(const std::string& why) { throw error(errc::invalid_argument, why); }

template <typename T>
void put(std::byte* to, std::size_t at, T value) {
    std::memcpy(to + at * sizeof(T), &value, sizeof(T));
}

// -128 to 128, as a number of 1/128.
float small_number(std::mt19937_64& random) {
    return static_cast<float>(static_cast<int>(random() % 257) - 128) / 128.0f;
}

nn::any_tensor random_tensor(io::dtype type, std::vector<std::size_t> shape, std::mt19937_64& random) {
    using enum io::dtype;
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(type, std::move(shape), to);
    for (std::size_t i = 0; i < made.elements(); ++i) {
        switch (type) {
            case f16: put(to, i, half(small_number(random))); break;
            case bf16: put(to, i, bfloat16(small_number(random))); break;
            case f32: put(to, i, small_number(random)); break;
            case f64: put(to, i, double{small_number(random)}); break;
            case i8:
            case u8:
            case boolean: put(to, i, static_cast<std::uint8_t>(random() % 2)); break;
            case i16:
            case u16: put(to, i, static_cast<std::uint16_t>(random() % 2)); break;
            case i32:
            case u32: put(to, i, static_cast<std::uint32_t>(random() % 2)); break;
            case i64:
            case u64: put(to, i, static_cast<std::uint64_t>(random() % 2)); break;
        }
    }
    return made;
}

// The rows again and again, until there are enough.
nn::any_tensor repeated(const nn::any_tensor& rows, std::size_t count) {
    std::vector<std::size_t> shape = rows.shape();
    if (shape[0] == count) return rows;
    const std::size_t size = rows.size_bytes() / shape[0], there = shape[0];
    shape[0] = count;
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(rows.type(), std::move(shape), to);
    for (std::size_t i = 0; i < count && size != 0; ++i)
        std::memcpy(to + i * size, rows.bytes().data() + i % there * size, size);
    return made;
}

std::string label_of(const std::string& dimension) {
    return dimension.empty() ? "one without a name" : in_quotes(dimension);
}

}  // namespace

sample_inputs::sample_inputs(std::vector<nn::value_info> takes, const sample_options& options,
                             const std::function<bool(std::size_t)>& is_host_input)
    : takes_(std::move(takes)), seed_(options.seed) {
    set_lengths(options.lengths);
    const named_paths files = files_by_name(options.files, takes_, "--input");
    for (std::size_t i = 0; i < takes_.size(); ++i) {
        const nn::value_info& what = takes_[i];
        const auto file = files.find(what.name);
        if (file != files.end()) {
            from_files_.emplace(i, read_plain_input(file->second, what));
            names_of_files_.push_back(file->second.string());
        } else if (is_host_input(i)) {
            refuse_sample("shapes depend on the numbers of the input " + in_quotes(what.name) +
                          ", so it cannot be random: add --input " + what.name + "=FILE");
        } else if (!what.shape) {
            refuse_sample("the file does not say the shape of the input " + in_quotes(what.name) + ": add --input " +
                          what.name + "=FILE");
        }
    }
    find_batch();
    for (const auto& [input, tensor] : from_files_) set_lengths_of(input, tensor);
}

void sample_inputs::set_lengths(const std::vector<std::string>& words) {
    std::set<std::string> known;
    for (const nn::value_info& each : takes_) {
        if (!each.shape) continue;
        for (const nn::dimension& one : *each.shape)
            if (!one.length && !one.name.empty()) known.insert(one.name);
    }
    for (const std::string& word : words) {
        const std::size_t at = word.rfind('=');
        const std::string name = word.substr(0, at);
        std::size_t length = 0;
        const char* const end = word.data() + word.size();
        const char* const begin = at == std::string::npos ? end : word.data() + at + 1;
        const auto [stop, failure] = std::from_chars(begin, end, length);
        const bool is_batch = std::string_view(begin, static_cast<std::size_t>(end - begin)) == "batch";
        if (!is_batch && (failure != std::errc() || stop != end || length == 0))
            refuse_sample("--size " + in_quotes(word) +
                          ": write NAME=LENGTH, with a length of at least 1, or NAME=batch");
        if (!known.contains(name)) {
            std::string there;
            for (const std::string& each : known) there += (there.empty() ? "" : ", ") + in_quotes(each);
            refuse_sample("--size: the inputs have no dimension " + in_quotes(name) + " without a length" +
                          (there.empty() ? "" : "; they have " + there));
        }
        const bool is_new = !lengths_.contains(name) && !batches_.contains(name);
        if (!is_new) refuse_sample("--size: " + in_quotes(name) + " is said twice");
        if (is_batch) {
            batches_.insert(name);
        } else {
            lengths_.emplace(name, length);
        }
    }
}

// Those that only files have are said by the files, unless they are the batch.
void sample_inputs::find_batch() {
    std::set<std::string> open, of_files;
    for (std::size_t i = 0; i < takes_.size(); ++i) {
        if (!takes_[i].shape) continue;
        for (std::size_t d = 0; d < takes_[i].shape->size(); ++d) {
            const nn::dimension& each = (*takes_[i].shape)[d];
            if (each.length || lengths_.contains(each.name) || batches_.contains(each.name)) continue;
            const bool is_in_file = from_files_.contains(i);
            if (d != 0 && each.name.empty()) {
                if (is_in_file) continue;
                refuse_sample("dimension " + std::to_string(d) + " of the input " + in_quotes(takes_[i].name) +
                              " has neither a length nor a name: add --input " + takes_[i].name + "=FILE");
            }
            (is_in_file && d != 0 ? of_files : open).insert(each.name);
        }
    }
    for (const std::string& each : of_files) open.erase(each);
    if (open.empty()) return;
    if (open.size() == 1 && batches_.empty()) {
        batches_.insert(*open.begin());
        return;
    }
    std::string names, inputs;
    for (const std::string& each : open) names += (names.empty() ? "" : ", ") + label_of(each);
    for (const nn::value_info& each : takes_)
        inputs += (inputs.empty() ? "" : ", ") + in_quotes(each.name) + " " + text_of(each);
    refuse_sample("dimensions of the inputs have no length: " + names +
                  "; one may be the batch, add --size NAME=LENGTH for the others, or NAME=batch" +
                  (open.contains("") ? ", or --input NAME=FILE for the input with the one without a name" : "") +
                  "; the inputs are " + inputs);
}

void sample_inputs::set_lengths_of(std::size_t input, const nn::any_tensor& from_file) {
    const nn::value_info& what = takes_[input];
    if (!what.shape) return;
    if (what.shape->size() != from_file.shape().size()) {
        throw error(errc::shape_mismatch, "the input " + in_quotes(what.name) + " has " +
                                              std::to_string(what.shape->size()) + " dimensions; its file is " +
                                              nn::to_string(std::span(from_file.shape())));
    }
    for (std::size_t d = 0; d < what.shape->size(); ++d) {
        const nn::dimension& each = (*what.shape)[d];
        if (!each.length && !each.name.empty() && !is_batch(each)) lengths_.emplace(each.name, from_file.shape()[d]);
    }
    if (is_of_rows(input) && from_file.shape()[0] == 0)
        throw error(errc::shape_mismatch, "the file of the input " + in_quotes(what.name) + " has no rows");
}

bool sample_inputs::is_batch(const nn::dimension& each) const { return !each.length && batches_.contains(each.name); }
bool sample_inputs::is_of_rows(std::size_t input) const {
    const nn::value_info& what = takes_[input];
    return what.shape && !what.shape->empty() && is_batch(what.shape->front());
}

std::optional<std::size_t> sample_inputs::rows_of_files() const {
    std::optional<std::size_t> rows;
    for (const auto& [input, tensor] : from_files_) {
        if (!is_of_rows(input)) continue;
        if (rows && *rows != tensor.shape()[0]) return {};
        rows = tensor.shape()[0];
    }
    return rows;
}

std::vector<std::size_t> sample_inputs::shape_of(std::size_t input, std::size_t rows) const {
    std::vector<std::size_t> shape;
    for (const nn::dimension& each : *takes_[input].shape)
        shape.push_back(each.length ? *each.length : is_batch(each) ? rows : lengths_.at(each.name));
    if (!io::byte_count(shape, takes_[input].type)) {
        throw error(errc::out_of_memory, "the input " + in_quotes(takes_[input].name) + " would be " +
                                             nn::to_string(std::span(shape)) + ", which is too large");
    }
    return shape;
}

std::vector<nn::any_tensor> sample_inputs::of_batch(std::size_t rows) const {
    std::mt19937_64 random(seed_);
    std::vector<nn::any_tensor> made;
    for (std::size_t i = 0; i < takes_.size(); ++i) {
        const auto file = from_files_.find(i);
        if (file == from_files_.end()) {
            made.push_back(random_tensor(takes_[i].type, shape_of(i, rows), random));
        } else {
            made.push_back(is_of_rows(i) ? repeated(file->second, rows) : file->second);
        }
    }
    return made;
}

std::string sample_inputs::source() const {
    std::string text;
    for (const std::string& each : names_of_files_) text += (text.empty() ? "" : ", ") + each;
    if (names_of_files_.size() == takes_.size() && !text.empty()) return text;
    return (text.empty() ? "" : text + ", ") + "random numbers (floating point from -1 to 1, integers 0 or 1)";
}

}  // namespace sluice::app
