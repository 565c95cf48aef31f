// SPDX-License-Identifier: Apache-2.0
#include "document.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::trees {
namespace {

constexpr std::size_t deepest = 500;

// Makes values of the parser's events. The parser of UBJSON recurses, and believes what a file says of its lengths:
// so depth and elements are counted here, and an element that needs no byte counts like one of a byte.
class document_builder {
public:
    using number_integer_t = nlohmann::json::number_integer_t;
    using number_unsigned_t = nlohmann::json::number_unsigned_t;
    using number_float_t = nlohmann::json::number_float_t;
    using string_t = nlohmann::json::string_t;
    using binary_t = nlohmann::json::binary_t;

    document_builder(const std::filesystem::path& path, std::size_t bytes) : path_(path), left_(bytes) {}

    bool null() { return add({}); }
    bool boolean(bool value) { return add_number(value ? 1 : 0); }
    bool number_integer(number_integer_t value) { return add_number(static_cast<double>(value)); }
    bool number_unsigned(number_unsigned_t value) { return add_number(static_cast<double>(value)); }
    bool number_float(number_float_t value, const string_t&) { return add_number(value); }
    bool string(string_t& value) { return add({std::move(value)}); }
    bool binary(binary_t&) { refuse("has binary data, which no model has"); }
    bool start_object(std::size_t) { return open({document_value::object()}); }
    bool start_array(std::size_t) { return open({std::vector<double>()}); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(string_t& name) {
        auto& members = std::get<document_value::object>(open_.back().value.what);
        const auto [at, is_new] = members.try_emplace(name);
        if (!is_new) refuse("has the name " + in_quotes(name) + " twice in one object");
        open_.back().member = &at->second;
        return true;
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
        throw file_error(path_, position, {}, "is damaged or cut off here");
    }

    document_value take() { return std::move(root_); }

private:
    struct level {
        document_value value;
        document_value* member = nullptr;  // of an object: where its next value goes
    };

    [[noreturn]] void refuse(const std::string& why) const { throw file_error(path_, file_error::no_offset, {}, why); }
    void count() {
        if (left_-- == 0) refuse("says that it has more values than bytes");
    }
    bool open(document_value empty) {
        if (open_.size() == deepest) refuse("is nested deeper than " + std::to_string(deepest) + " levels");
        open_.push_back({std::move(empty), nullptr});
        return true;
    }
    bool close() {
        document_value made = std::move(open_.back().value);
        open_.pop_back();
        return add(std::move(made));
    }
    bool add_number(double value) {
        if (!open_.empty())
            if (auto* const numbers = std::get_if<std::vector<double>>(&open_.back().value.what)) {
                count();
                numbers->push_back(value);
                return true;
            }
        return add({value});
    }
    bool add(document_value value) {
        count();
        if (open_.empty()) {
            root_ = std::move(value);
            return true;
        }
        level& around = open_.back();
        if (around.member != nullptr) {
            *std::exchange(around.member, nullptr) = std::move(value);
            return true;
        }
        // An array that is not only of numbers.
        if (auto* const numbers = std::get_if<std::vector<double>>(&around.value.what)) {
            std::vector<document_value> values;
            values.reserve(numbers->size() + 1);
            for (const double each : *numbers) values.push_back({each});
            around.value.what = std::move(values);
        }
        std::get<std::vector<document_value>>(around.value.what).push_back(std::move(value));
        return true;
    }

    const std::filesystem::path& path_;
    std::size_t left_;
    std::vector<level> open_;
    document_value root_;
};

std::string name_of(const std::string& around, std::string_view name, std::size_t index) {
    if (name.empty()) return around + "[" + std::to_string(index) + "]";
    return (around.empty() ? "" : around + ".") + printable(name, 100);
}

}  // namespace

document_value read_document(std::span<const std::byte> file, const std::filesystem::path& path, notation how) {
    document_builder builder(path, file.size());
    const auto* const begin = reinterpret_cast<const char*>(file.data());
    const auto format =
        how == notation::json ? nlohmann::json::input_format_t::json : nlohmann::json::input_format_t::ubjson;
    nlohmann::json::sax_parse(begin, begin + file.size(), &builder, format);
    return builder.take();
}

field::field(const document_value& value, const std::filesystem::path& path, const field* around, std::string_view name,
             std::size_t index)
    : value_(&value), path_(&path), name_(around != nullptr ? name_of(around->name_, name, index) : std::string()) {}

void field::refuse(const std::string& why) const { throw file_error(*path_, file_error::no_offset, name_, why); }

const document_value::object& field::members() const {
    if (const auto* const found = std::get_if<document_value::object>(&value_->what)) return *found;
    refuse("is not an object");
}

std::optional<field> field::find(std::string_view name) const {
    const auto& all = members();
    const auto found = all.find(name);
    if (found == all.end()) return std::nullopt;
    return field(found->second, *path_, this, found->first, 0);
}

field field::at(std::string_view name) const {
    if (auto found = find(name)) return *std::move(found);
    refuse("has no member " + in_quotes(name));
}

const std::string& field::text() const {
    if (const auto* const found = std::get_if<std::string>(&value_->what)) return *found;
    refuse("is not text");
}

double field::number() const {
    if (const auto* const found = std::get_if<double>(&value_->what)) return *found;
    refuse("is not a number");
}

std::size_t field::count(std::size_t most) const { return index_of(number(), most, *this); }

std::size_t field::count_in_text() const {
    constexpr std::size_t most = std::size_t{1} << 30;
    const std::string& written = text();
    std::size_t made = 0;
    const auto [end, failure] = std::from_chars(written.data(), written.data() + written.size(), made);
    if (failure != std::errc() || end != written.data() + written.size() || made > most)
        refuse("is " + in_quotes(written) + ", which is not a number from 0 to " + std::to_string(most));
    return made;
}

std::span<const double> field::numbers() const {
    if (const auto* const found = std::get_if<std::vector<double>>(&value_->what)) return *found;
    refuse("is not an array of numbers");
}

std::span<const double> field::numbers(std::size_t count) const {
    const auto found = numbers();
    if (found.size() != count)
        refuse("has " + std::to_string(found.size()) + " numbers instead of " + std::to_string(count));
    return found;
}

std::size_t field::elements() const {
    if (std::holds_alternative<std::monostate>(value_->what)) return 0;
    if (const auto* const found = std::get_if<std::vector<document_value>>(&value_->what)) return found->size();
    if (const auto* const found = std::get_if<std::vector<double>>(&value_->what); found != nullptr && found->empty())
        return 0;
    refuse("is not an array of values");
}

field field::element(std::size_t i) const {
    return {std::get<std::vector<document_value>>(value_->what).at(i), *path_, this, {}, i};
}

std::size_t index_of(double value, std::size_t most, const field& of) {
    if (!(value >= 0 && value <= static_cast<double>(most)) || value != static_cast<double>(std::size_t(value)))
        of.refuse("has a number that is not a whole one from 0 to " + std::to_string(most));
    return static_cast<std::size_t>(value);
}

}  // namespace sluice::nn::trees
