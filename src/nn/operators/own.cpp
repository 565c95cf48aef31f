// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/own.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/operator_call.hpp"

namespace sluice::nn::operators {
namespace {

std::uint32_t bits_of(const std::vector<std::size_t>& inputs) {
    std::uint32_t bits = none;
    for (const std::size_t each : inputs) bits |= input_bit(each);
    return bits;
}

// Whether an error says something about the node; others are failures of devices, of memory, or of the run.
bool is_about_the_node(errc code) {
    switch (code) {
        case errc::invalid_argument:
        case errc::shape_mismatch:
        case errc::device_not_found:
        case errc::unsupported:
        case errc::bad_file:
        case errc::io_failed:
        case errc::out_of_range: return true;
        default: return false;
    }
}

[[noreturn]] void refuse_nested(const node_call& in, const std::string& why, errc code) {
    std::throw_with_nested(file_error(*in.environment().path, file_error::no_offset, in.label(), why, code));
}

// A network's output that the model says the type or a length of.
void require_declared(const node_call& in, const value_info& declared, const any_tensor& given) {
    const auto refuse = [&](const std::string& what) {
        in.refuse_shapes("gives the network's output " + in_quotes(declared.name) + " as " + to_string(given) +
                         ", of which the model says " + what);
    };
    if (given.type() != declared.type) refuse("that it is " + std::string(io::to_string(declared.type)));
    if (!declared.shape) return;
    if (declared.shape->size() != given.shape().size())
        refuse("that it has " + std::to_string(declared.shape->size()) + " dimensions");
    for (std::size_t d = 0; d < given.shape().size(); ++d) {
        const auto& length = (*declared.shape)[d].length;
        if (length && *length != given.shape()[d])
            refuse("that dimension " + std::to_string(d) + " is " + std::to_string(*length));
    }
}

void call_function(node_call& in, const own_operator& what) {
    operator_call call(in, what);
    try {
        what.run(call);
    } catch (const file_error& failure) {
        if (failure.path() == *in.environment().path && failure.field() == in.label()) throw;
        refuse_nested(in, std::string("its operator failed: ") + failure.what(),
                      static_cast<errc>(failure.code().value()));
    } catch (const device_error&) {
        throw;
    } catch (const out_of_memory&) {
        throw;
    } catch (const error& failure) {
        const auto code = static_cast<errc>(failure.code().value());
        if (failure.code().category() != sluice_category() || !is_about_the_node(code)) throw;
        refuse_nested(in, std::string("its operator failed: ") + failure.what(), code);
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& failure) {
        refuse_nested(in, std::string("its operator threw: ") + failure.what(), errc::bad_file);
    } catch (...) {
        refuse_nested(in, "its operator threw an object that is no std::exception", errc::bad_file);
    }
}

// definition::run of operators of the user's own.
void run_own(node_call& in) {
    call_function(in, *in.environment().own);
    const auto declared = in.environment().declared;
    for (std::size_t i = 0; i < in.output_count(); ++i) {
        if (in.wants_output(i) && !in.output(i))
            in.refuse("its operator does not make the output " + std::to_string(i));
        if (i < declared.size() && declared[i] != nullptr) require_declared(in, *declared[i], in.output(i));
    }
}

definition definition_of(const own_operator& from) {
    definition made{.name = from.name,
                    .least_inputs = from.least_inputs,
                    .most_inputs = from.most_inputs,
                    .most_outputs = from.most_outputs,
                    .attributes = {from.attributes.begin(), from.attributes.end()},
                    .run = &run_own,
                    .host_inputs = bits_of(from.host_inputs),
                    .shape_inputs = bits_of(from.shape_inputs),
                    .since = from.since,
                    .domain = from.domain,
                    .is_random = from.is_random,
                    .own = &from};
    if (from.until) made.until = *from.until;
    return made;
}

bool is_called(const definition& each, std::string_view domain, std::string_view name) {
    return each.domain == domain && each.name == name;
}

}  // namespace

known_to_network::known_to_network(const own_operators& own) : kept_(own.all()) {
    for (const auto& each : kept_) own_.push_back(definition_of(*each));
}

const definition* known_to_network::find(std::string_view domain, std::string_view name, std::int64_t opset) const {
    for (const definition& each : own_)
        if (is_called(each, domain, name) && each.since <= opset && opset <= each.until) return &each;
    return operators::find(domain, name, opset);
}

bool known_to_network::is_known(std::string_view domain, std::string_view name) const {
    return std::ranges::any_of(own_, [&](const definition& each) { return is_called(each, domain, name); }) ||
           operators::is_known(domain, name);
}

}  // namespace sluice::nn::operators

namespace sluice::nn {

void own_operators::add(own_operator what) {
    const auto refuse = [&](const std::string& why) {
        throw error(errc::invalid_argument,
                    "the operator " + in_quotes(what.domain + "." + what.name) + " of your own " + why);
    };
    if (what.domain.empty() || what.domain == "ai.onnx" || what.domain.starts_with("ai.onnx."))
        refuse(
            "is of a domain of ONNX, whose operators cannot be replaced or added to: give it a domain of your own, "
            "such as com.example");
    if (what.name.empty()) refuse("has no name");
    if (!what.run) refuse("has no function `run`");
    if (what.least_inputs > what.most_inputs)
        refuse("has " + std::to_string(what.least_inputs) + " inputs at least and " + std::to_string(what.most_inputs) +
               " at most");
    if (what.until && *what.until < what.since)
        refuse("is of versions " + std::to_string(what.since) + " to " + std::to_string(*what.until));
    // Bits say which inputs these are.
    constexpr std::size_t last_input = 30;
    for (const auto* const list : {&what.host_inputs, &what.shape_inputs}) {
        for (const std::size_t each : *list) {
            if (each < what.most_inputs && each <= last_input) continue;
            refuse("names the input " + std::to_string(each) +
                   (list == &what.host_inputs ? " in host_inputs" : " in shape_inputs") + "; it has " +
                   std::to_string(std::min(what.most_inputs, last_input + 1)) + " that can be named");
        }
    }
    for (const auto& each : all_) {
        if (each->domain != what.domain || each->name != what.name) continue;
        const bool is_before = each->until && *each->until < what.since;
        const bool is_after = what.until && *what.until < each->since;
        if (!is_before && !is_after)
            refuse("is there twice, for version " + std::to_string(std::max(each->since, what.since)));
    }
    all_.push_back(std::make_shared<const own_operator>(std::move(what)));
}

}  // namespace sluice::nn
