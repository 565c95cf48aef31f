// SPDX-License-Identifier: Apache-2.0
#include "profile.hpp"

#include "arguments.hpp"
#include "array_inputs.hpp"
#include "interpreter_end.hpp"

namespace sluice::python {
namespace {

nb::handle profile_type, row_type;  // kept for the process's life

constexpr std::size_t usual_runs = 20;

// Takes `runs` out of the arguments by name.
std::size_t runs_in(nb::dict& named) {
    if (!named.contains("runs")) return usual_runs;
    const nb::object given = nb::object(named["runs"]);
    if (!nb::isinstance<nb::int_>(given) || integer_in(given) < 1)
        raise(PyExc_ValueError, "runs is a whole number, at least 1");
    nb::del(named["runs"]);
    return nb::cast<std::size_t>(given);
}

nb::object rows_of(const sluice_profile* from, std::size_t count) {
    nb::list made;
    for (std::size_t i = 0; i < count; ++i) {
        sluice_profile_row_info info{};
        info.size = sizeof(info);
        check(sluice_profile_row(from, i, &info));
        made.append(row_type(info.operators, info.node, info.commands, info.microseconds, info.share));
    }
    return nb::tuple(made);
}

}  // namespace

nb::object profile(const network& of, PyObject* args, PyObject* kwargs) {
    of.birth().require("this network");
    const work_in_flight call;
    nb::dict named;
    if (kwargs != nullptr) named.update(nb::borrow<nb::dict>(kwargs));
    const std::size_t runs = runs_in(named);
    const array_inputs inputs(of, args, named.ptr());
    sluice_profile* made = nullptr;
    sluice_status status = SLUICE_OK;
    {
        const nb::gil_scoped_release without_gil;
        status = sluice_network_profile(of.handle(), inputs.tensors.data(), inputs.tensors.size(), runs, &made);
    }
    check(status);
    const std::unique_ptr<sluice_profile, void (*)(sluice_profile*)> kept(made, sluice_profile_destroy);
    sluice_profile_info info{};
    info.size = sizeof(info);
    check(sluice_profile_total(made, &info));
    return profile_type(rows_of(made, info.rows), info.microseconds, info.span_microseconds, runs, info.on_host,
                        info.without_commands);
}

void set_profile_types(nb::object profile, nb::object row) {
    profile_type = profile.release();
    row_type = row.release();
}

}  // namespace sluice::python
