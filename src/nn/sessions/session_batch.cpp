// SPDX-License-Identifier: Apache-2.0
#include "sluice/nn/session_batch.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "nn/prepared_network.hpp"
#include "nn/sessions/session_core.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/nn/row_independence.hpp"

namespace sluice::nn {
namespace detail {
namespace {

[[noreturn]] void refuse_batch(errc code, const std::string& why) { throw error(code, why, {"session_batch"}); }
[[noreturn]] void refuse_batch(errc code, std::size_t session, const std::string& why) {
    refuse_batch(code, "session " + std::to_string(session) + " of the batch: " + why);
}

// A tensor as lines of bytes: each row has one in each of the blocks before its axis.
struct row_layout {
    std::size_t blocks = 1, rows, row_bytes;

    row_layout(const view_form& of, std::size_t axis) : rows(of.shape()[axis]), row_bytes(io::size_of(of.type())) {
        for (std::size_t d = 0; d < of.shape().size(); ++d) {
            if (d < axis) blocks *= of.shape()[d];
            if (d > axis) row_bytes *= of.shape()[d];
        }
    }
};

view_form with_rows(const view_form& of, std::size_t axis, std::size_t rows) {
    std::vector<std::size_t> shape(of.shape().begin(), of.shape().end());
    shape[axis] = rows;
    return {of.type(), shape};
}

void copy_rows(const row_layout& from, const std::byte* source, std::size_t first_from, const row_layout& to,
               std::byte* destination, std::size_t first_to, std::size_t rows) {
    const std::size_t bytes = rows * from.row_bytes;
    if (bytes == 0) return;
    for (std::size_t i = 0; i < from.blocks; ++i) {
        std::memcpy(destination + (i * to.rows + first_to) * to.row_bytes,
                    source + (i * from.rows + first_from) * from.row_bytes, bytes);
    }
}

}  // namespace

class session_batch_core {
public:
    session_batch_core(network of, session_options options);

    void step(std::span<const session_step> steps);

private:
    // A session that has begun its step.
    struct member {
        session_core* of;
        session_core::entry alone;
        std::span<const input_view> inputs = {};  // all of the network's
        std::size_t first_row = 0, rows = 0;
    };

    void enter(const session_step& each, std::size_t number);
    void begin(member& which, std::size_t number, const session_step& with, std::size_t first_row);
    void gather(std::size_t rows);
    void scatter(std::size_t rows);

    const session_core like_;  // for comparison: it makes no step
    const row_independence rows_;
    shaped_run run_;
    std::vector<member> members_;
    std::vector<host_value> inputs_, outputs_;  // of the batch
    std::vector<host_value*> room_;
    std::vector<input_view> given_;
};

session_batch_core::session_batch_core(network of, session_options options)
    : like_(std::move(of), std::move(options)),
      rows_(like_.of().inside().rows()),
      run_(like_.of()),
      inputs_(like_.of().inputs().size()),
      outputs_(like_.of().outputs().size()) {
    const device& on = like_.of().inside().on();
    if (!on.shares_host_memory())
        refuse_batch(errc::unsupported, "sessions step together on CPUs only, and the network is on " + on.name());
    if (!rows_.is_proven)
        refuse_batch(errc::unsupported, "the rows of a batch are not proven to be independent: " + rows_.text());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        for (std::size_t o = 0; o < outputs_.size(); ++o) {
            const auto its = like_.state_of_input(i);
            if (!its || its != like_.state_of_output(o) || rows_.input_axes[i] == rows_.output_axes[o]) continue;
            refuse_batch(errc::unsupported, "the rows are dimension " + std::to_string(rows_.output_axes[o]) +
                                                " of the output " + in_quotes(like_.of().outputs()[o].name) +
                                                ", and dimension " + std::to_string(rows_.input_axes[i]) +
                                                " of the next input " + in_quotes(like_.of().inputs()[i].name));
        }
    }
    for (host_value& each : outputs_) room_.push_back(&each);
}

void session_batch_core::enter(const session_step& each, std::size_t number) {
    if (each.of == nullptr) refuse_batch(errc::invalid_argument, number, "it is null");
    session_core& its = each.of->inside();
    if (&its.of().inside() != &like_.of().inside())
        refuse_batch(errc::invalid_argument, number, "it is of another network");
    if (its.pairs() != like_.pairs()) refuse_batch(errc::invalid_argument, number, "it has another state");
    if (std::ranges::find(members_, &its, &member::of) != members_.end())
        refuse_batch(errc::invalid_argument, number, "it is here twice");
    members_.push_back({.of = &its, .alone = session_core::entry(its)});
}

void session_batch_core::begin(member& which, std::size_t number, const session_step& with, std::size_t first_row) {
    which.inputs = which.of->begin_step(with.inputs);
    which.first_row = first_row;
    for (std::size_t i = 0; i < which.inputs.size(); ++i) {
        const view_form &its = which.inputs[i].form(), &first = members_[0].inputs[i].form();
        const std::size_t axis = rows_.input_axes[i];
        const std::string name = "the input " + in_quotes(like_.of().inputs()[i].name) + ", " + its.text() + ", ";
        if (its.shape().size() <= axis) refuse_batch(errc::shape_mismatch, number, name + "has no dimension of rows");
        if (i == 0) which.rows = its.shape()[axis];
        if (its.shape()[axis] != which.rows)
            refuse_batch(errc::shape_mismatch, number,
                         name + "has another number of rows than " + std::to_string(which.rows));
        if (its.type() != first.type() || its.shape().size() != first.shape().size() ||
            with_rows(its, axis, 1) != with_rows(first, axis, 1))
            refuse_batch(errc::shape_mismatch, number, name + "does not fit " + first.text() + " of the first session");
    }
}

void session_batch_core::gather(std::size_t rows) {
    given_.clear();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const std::size_t axis = rows_.input_axes[i];
        inputs_[i].make(with_rows(members_[0].inputs[i].form(), axis, rows));
        const output_view to = inputs_[i].room();
        const row_layout all(to.form(), axis);
        for (const member& each : members_) {
            const input_view& from = each.inputs[i];
            copy_rows({from.form(), axis}, from.data(), 0, all, to.data(), each.first_row, each.rows);
        }
        given_.push_back(inputs_[i].view());
    }
}

void session_batch_core::scatter(std::size_t rows) {
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
        const std::size_t axis = rows_.output_axes[o];
        const input_view from = outputs_[o].view();
        if (from.form().shape().size() <= axis || from.form().shape()[axis] != rows) {
            refuse_batch(errc::unsupported, "the output " + in_quotes(like_.of().outputs()[o].name) + ", " +
                                                from.form().text() + ", has not the rows of the inputs");
        }
        const row_layout all(from.form(), axis);
        for (const member& each : members_) {
            host_value& its = *each.of->next()[o];
            its.make(with_rows(from.form(), axis, each.rows));
            const output_view to = its.room();
            copy_rows(all, from.data(), each.first_row, {to.form(), axis}, to.data(), 0, each.rows);
        }
    }
}

void session_batch_core::step(std::span<const session_step> steps) {
    if (steps.empty()) return;
    members_.clear();
    members_.reserve(steps.size());
    std::size_t rows = 0;
    try {
        for (std::size_t i = 0; i < steps.size(); ++i) enter(steps[i], i);
        for (std::size_t i = 0; i < steps.size(); ++i) {
            begin(members_[i], i, steps[i], rows);
            rows += members_[i].rows;
        }
        gather(rows);
        run_(given_, room_);
        scatter(rows);
    } catch (...) {
        for (const member& each : members_) each.of->give_up_step();
        members_.clear();
        throw;
    }
    for (const member& each : members_) each.of->take_next();
    members_.clear();
}

}  // namespace detail

session_batch::session_batch(network of, session_options options)
    : core_(std::make_unique<detail::session_batch_core>(std::move(of), std::move(options))) {}
session_batch::session_batch(session_batch&&) noexcept = default;
session_batch& session_batch::operator=(session_batch&&) noexcept = default;
session_batch::~session_batch() = default;

void session_batch::step(std::span<const session_step> steps) {
    if (core_ == nullptr) throw error(errc::invalid_argument, "the batch was moved from", {"session_batch"});
    core_->step(steps);
}

}  // namespace sluice::nn
