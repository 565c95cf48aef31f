// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/infer_parameters.hpp"

#include "serve/request_checks.hpp"

namespace sluice::serve {
namespace {

using parameter_kind = named_parameter::kind;

// One InferParameter: of its fields the last one holds.
void read_value(wire_reader from, named_parameter& to) {
    const auto set = [&to](parameter_kind is, std::uint64_t number, std::string_view text = {}) {
        to.is = is;
        to.number = number;
        to.text = text;
    };
    for (wire_reader::field field; from.next(field);) {
        if (field.is(1, wire_type::varint))
            set(parameter_kind::boolean, from.read_varint() != 0 ? 1 : 0);
        else if (field.is(2, wire_type::varint))
            set(parameter_kind::int64, from.read_varint());
        else if (field.is(3, wire_type::bytes))
            set(parameter_kind::text, 0, from.read_text());
        else if (field.is(4, wire_type::fixed64))
            set(parameter_kind::fp64, from.read_fixed<std::uint64_t>());
        else if (field.is(5, wire_type::varint))
            set(parameter_kind::uint64, from.read_varint());
        else
            from.skip(field);
    }
}

std::string in_plain_quotes(std::string_view key) { return "'" + std::string(key) + "'"; }

}  // namespace

named_parameter read_parameter(wire_reader entry) {
    named_parameter made;
    for (wire_reader::field field; entry.next(field);) {
        if (field.is(1, wire_type::bytes))
            made.key = entry.read_text();
        else if (field.is(2, wire_type::bytes))
            read_value(entry.read_message(), made);
        else
            entry.skip(field);
    }
    return made;
}

std::uint64_t require_count(const named_parameter& from) {
    const bool is_right = from.is == parameter_kind::uint64 ||
                          (from.is == parameter_kind::int64 && from.number <= std::uint64_t{INT64_MAX});
    if (!is_right) refuse_request(in_plain_quotes(from.key) + " is not an integer of at least 0");
    return from.number;
}

bool require_flag(const named_parameter& from) {
    if (from.is != parameter_kind::boolean) refuse_request(in_plain_quotes(from.key) + " is not true or false");
    return from.number != 0;
}

void region_fields::add(const named_parameter& its) {
    if (its.key == "shared_memory_region")
        region_ = its;
    else if (its.key == "shared_memory_byte_size")
        bytes_ = its;
    else if (its.key == "shared_memory_offset")
        offset_ = its;
    else if (!may_pass_over(its.key, its.says_nothing()))
        unknown_ = its;
}

void region_fields::refuse_unknown(const std::string& where) const {
    refuse_parameter(where, unknown_->key, shared_memory_parameters);
}

region_parameters region_fields::read_known() const {
    region_parameters found;
    if (region_) {
        if (region_->is != parameter_kind::text) refuse_request("'shared_memory_region' is not a text");
        found.region = std::string(region_->text);
    }
    if (bytes_) found.bytes = require_count(*bytes_);
    if (offset_) found.offset = require_count(*offset_);
    return found;
}

}  // namespace sluice::serve
