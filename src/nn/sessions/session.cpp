// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/session.hpp"

#include <algorithm>
#include <utility>

#include "nn/nearest_name.hpp"
#include "nn/sessions/session_core.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn {
namespace {

[[noreturn]] void refuse_call(const std::string& why) { throw error(errc::invalid_argument, why, {"session"}); }

}  // namespace

session::session(network of, session_options options)
    : core_(std::make_unique<detail::session_core>(std::move(of), std::move(options))) {}
session::session(session&&) noexcept = default;
session& session::operator=(session&&) noexcept = default;
session::~session() = default;

detail::session_core& session::inside() const {
    if (core_ == nullptr) refuse_call("the session has ended: it was moved from");
    return *core_;
}

const network& session::of() const { return inside().of(); }
const std::vector<state_pair>& session::pairs() const { return inside().pairs(); }
const std::vector<value_info>& session::inputs() const { return inside().step_inputs(); }
const std::vector<value_info>& session::outputs() const { return of().outputs(); }

void session::step(std::span<const input_view> inputs) { inside().step(inputs); }
input_view session::output(std::size_t index) const { return inside().output(index); }
session_state session::state() const { return inside().state(); }
void session::set_state(const session_state& state) { inside().set_state(state); }
void session::reset() { inside().reset(); }
std::size_t session::memory_bytes() const { return inside().memory_bytes(); }

std::size_t session::output_named(std::string_view name) const {
    const auto found = std::ranges::find(outputs(), name, &value_info::name);
    if (found != outputs().end()) return static_cast<std::size_t>(found - outputs().begin());
    std::vector<std::string> known;
    for (const value_info& each : outputs()) known.push_back(each.name);
    refuse_call("the network has no output " + in_quotes(name) + "; is " +
                in_quotes(detail::nearest_name(name, known)) + " meant?");
}

void session::require_type(std::size_t index, io::dtype wanted) const {
    const io::dtype has = output(index).form().type();
    if (has == wanted) return;
    refuse_call("the elements of the output " + in_quotes(outputs()[index].name) + " are " +
                std::string(io::to_string(has)) + ", and are asked for as " + std::string(io::to_string(wanted)));
}

}  // namespace sluice::nn
