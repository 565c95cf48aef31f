// SPDX-License-Identifier: Apache-2.0
// The values of a JSON or UBJSON file, and the fields of it that a reader asks for.
//
// Arrays of numbers are kept as numbers, 8 bytes each. The memory is proportional to the file's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::nn::trees {

struct document_value {
    using object = std::map<std::string, document_value, std::less<>>;
    // Truth values are numbers here.
    std::variant<std::monostate, double, std::string, std::vector<double>, std::vector<document_value>, object> what;
};

enum class notation { json, ubjson };

// Throws file_error: when the file is not of this notation, is nested deeper than 500 levels, or has a name twice.
document_value read_document(std::span<const std::byte> file, const std::filesystem::path& path, notation how);

// A value with its name for messages, `learner.objective.name`. All members throw file_error that names the field when
// the value is of another kind than asked for, or is not there. Valid as long as the document and the path.
class field {
public:
    field(const document_value& value, const std::filesystem::path& path) : field(value, path, nullptr, {}, 0) {}

    std::optional<field> find(std::string_view name) const;  // none where there is no such member
    field at(std::string_view name) const;
    const document_value::object& members() const;
    const std::string& text() const;
    double number() const;
    std::size_t count(std::size_t most) const;                 // a whole number from 0 to `most`
    std::size_t count_in_text() const;                         // the same as text, as XGBoost writes it; at most 2^30
    std::span<const double> numbers() const;                   // of an array of numbers
    std::span<const double> numbers(std::size_t count) const;  // exactly this many
    std::size_t elements() const;                              // of an array of any values but numbers; of null 0
    field element(std::size_t i) const;
    bool has_only_numbers() const { return std::holds_alternative<std::vector<double>>(value_->what); }
    bool is_number() const { return std::holds_alternative<double>(value_->what); }

    [[noreturn]] void refuse(const std::string& why) const;
    const std::filesystem::path& path() const { return *path_; }

private:
    // `name` is of a member, and `index` of an element where there is no name. A field may live longer than `around`:
    // its name is made at once.
    field(const document_value& value, const std::filesystem::path& path, const field* around, std::string_view name,
          std::size_t index);

    const document_value* value_;
    const std::filesystem::path* path_;
    std::string name_;
};

// A whole number that is an element of an array, from 0 to `most`. `of` is for messages.
std::size_t index_of(double value, std::size_t most, const field& of);

}  // namespace sluice::nn::trees
