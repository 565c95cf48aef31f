// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "arguments.hpp"
#include "array_inputs.hpp"
#include "array_outputs.hpp"
#include "interpreter_end.hpp"

namespace sluice::python {
namespace {

// A step may hold it while another thread closes the session.
class session_handle {
public:
    explicit session_handle(sluice_session* handle) : handle_(handle) {}
    session_handle(const session_handle&) = delete;  // owns the handle
    session_handle& operator=(const session_handle&) = delete;
    ~session_handle() {
        if (!birth_.is_here()) return;
        const gil_given_away without_gil;  // the last object of a runtime ends it
        sluice_session_destroy(handle_);
    }

    sluice_session* get() const noexcept { return handle_; }
    const made_here& birth() const noexcept { return birth_; }

    std::atomic<bool> is_busy{false};

private:
    sluice_session* const handle_;
    const made_here birth_;
};

// Until its end no other thread enters the session, also while its outputs are copied.
class turn {
public:
    explicit turn(session_handle& of) : of_(of) {
        if (of.is_busy.exchange(true, std::memory_order_acquire))
            raise(PyExc_ValueError, "another thread is in this session: each session has one thread at a time");
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    ~turn() { of_.is_busy.store(false, std::memory_order_release); }

private:
    session_handle& of_;
};

std::string name_of(const named_value& value) { return nb::cast<std::string>(value.name); }

class session {
public:
    session(nb::object of, sluice_session* handle)
        : network_(std::move(of)), handle_(std::make_shared<session_handle>(handle)) {
        std::size_t count = 0;
        check(sluice_session_input_count(handle, &count));
        takes_.resize(count);
        for (std::size_t i = 0; i < count; ++i) check(sluice_session_input(handle, i, &takes_[i]));
        check(sluice_session_state_count(handle, &count));
        for (std::size_t i = 0; i < count; ++i) {
            sluice_state_pair pair{};
            check(sluice_session_pair(handle, i, &pair));
            state_inputs_.emplace_back(pair.input);
            state_outputs_.emplace_back(pair.output);
        }
        for (std::size_t o = 0; o < what().outputs().size(); ++o)
            if (std::ranges::find(state_outputs_, name_of(what().outputs()[o])) == state_outputs_.end())
                gives_.push_back(o);
        // A network that gives nothing but its state; on a GPU only state() brings it.
        if (gives_.empty() && std::string_view(what().device()).starts_with("cpu"))
            for (std::size_t o = 0; o < what().outputs().size(); ++o) gives_.push_back(o);
    }

    nb::object step(PyObject* args, PyObject* kwargs) const {
        const auto held = open();
        const work_in_flight call;
        const turn alone(*held);
        const std::vector<PyObject*> given = arguments_of(what(), takes_, args, kwargs);
        std::vector<array_input> arrays(given.size());
        std::vector<sluice_tensor> tensors;
        for (std::size_t i = 0; i < given.size(); ++i) {
            arrays[i].take(what(), takes_[i], given[i]);
            tensors.push_back(arrays[i].tensor());
        }
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = sluice_session_step(held->get(), tensors.data(), tensors.size());
        }
        check(status);
        if (gives_.size() == 1) return output(*held, gives_[0]);
        nb::dict made;
        for (const std::size_t each : gives_) made[what().outputs()[each].name] = output(*held, each);
        return made;
    }

    nb::object state() const {
        const auto held = open();
        const work_in_flight call;
        const turn alone(*held);
        sluice_result* result = nullptr;
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = sluice_session_state(held->get(), &result);
        }
        check(status);
        const result_ptr kept = owned(result);
        nb::dict made;
        for (std::size_t i = 0; i < state_inputs_.size(); ++i) {
            sluice_buffer one{};
            check(sluice_result_output(result, i, &one));
            made[state_inputs_[i].c_str()] = array_copy(one);
        }
        return made;
    }

    void set_state(nb::dict values) const {
        const auto held = open();
        const work_in_flight call;
        const turn alone(*held);
        for (const auto& [name, value] : values) {
            const std::string text = nb::cast<std::string>(nb::str(name));
            if (std::ranges::find(state_inputs_, text) == state_inputs_.end())
                raise(PyExc_ValueError, "the session has no state '" + text + "'; it has " + names_of_state());
        }
        std::vector<array_input> arrays(state_inputs_.size());
        std::vector<sluice_tensor> tensors;
        for (std::size_t i = 0; i < arrays.size(); ++i) {
            const nb::str name(state_inputs_[i].c_str());
            if (!values.contains(name)) raise(PyExc_ValueError, "the state lacks '" + state_inputs_[i] + "'");
            arrays[i].take_host(nb::object(values[name]).ptr(), "the state '" + state_inputs_[i] + "'");
            tensors.push_back(arrays[i].tensor());
        }
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = sluice_session_set_state(held->get(), tensors.data(), tensors.size());
        }
        check(status);
    }

    void reset() const {
        const auto held = open();
        const turn alone(*held);
        check(sluice_session_reset(held->get()));
    }
    // A step of another thread that has begun ends as usual.
    void close() {
        std::shared_ptr<session_handle> last;  // it goes after the lock
        const std::lock_guard lock(mutex_);
        last = std::move(handle_);
    }

    nb::object pairs() const {
        nb::dict made;
        for (std::size_t i = 0; i < state_inputs_.size(); ++i)
            made[state_outputs_[i].c_str()] = nb::str(state_inputs_[i].c_str());
        return made;
    }
    std::string text() const {
        if (held() == nullptr) return "<sluice.Session that has ended>";
        return std::string("<sluice.Session on ") + what().device() + ", state " + names_of_state() + ">";
    }

private:
    const network& what() const { return *nb::inst_ptr<network>(network_); }
    std::shared_ptr<session_handle> open() const {
        std::shared_ptr<session_handle> its = held();
        if (its == nullptr) raise(PyExc_ValueError, "the session has ended");
        its->birth().require("this session");
        return its;
    }
    std::shared_ptr<session_handle> held() const {
        const std::lock_guard lock(mutex_);
        return handle_;
    }
    nb::object output(const session_handle& held, std::size_t index) const {
        sluice_buffer found{};
        check(sluice_session_output(held.get(), index, &found));
        return array_copy(found);
    }
    std::string names_of_state() const {
        std::string names;
        for (const std::string& each : state_inputs_) names += (names.empty() ? "" : ", ") + each;
        return names;
    }

    const nb::object network_;
    mutable std::mutex mutex_;                // of handle_, where Python has no lock of its own
    std::shared_ptr<session_handle> handle_;  // null: closed
    std::vector<std::size_t> takes_, gives_;  // of the network's inputs and outputs
    std::vector<std::string> state_inputs_, state_outputs_;
};

// What has no array of NumPy in place of a tensor.
void require_numbers(const network& of) {
    for (const std::vector<named_value>* const values : {&of.inputs(), &of.outputs()}) {
        for (const named_value& each : *values) {
            if (each.type == SLUICE_BF16)
                raise(PyExc_ValueError, each.label + " is bfloat16, which NumPy does not have");
            if (each.is_text) raise(PyExc_ValueError, each.label + " is text, which a session does not take or give");
        }
    }
}

std::string type_of(nb::handle value) { return nb::cast<std::string>(nb::str(value.type().attr("__name__"))); }

nb::dict dict_in(nb::handle from, const char* argument) {
    if (nb::isinstance<nb::dict>(from)) return nb::borrow<nb::dict>(from);
    raise(PyExc_TypeError, std::string(argument) + " is a dict, and is given " + type_of(from));
}
std::string text_in(nb::handle from, const char* argument) {
    if (nb::isinstance<nb::str>(from)) return nb::cast<std::string>(from);
    raise(PyExc_TypeError, std::string("the names in ") + argument + " are str, and one is " + type_of(from));
}

}  // namespace

nb::object make_session(nb::handle self, nb::object pairs, nb::object shapes) {
    const network& of = *nb::inst_ptr<network>(self);
    of.birth().require("this network");
    require_numbers(of);
    std::vector<std::pair<std::string, std::string>> names;
    std::vector<sluice_state_pair> given_pairs;
    if (!pairs.is_none()) {
        for (const auto& [output, input] : dict_in(pairs, "pairs"))
            names.emplace_back(text_in(output, "pairs"), text_in(input, "pairs"));
        if (names.empty()) raise(PyExc_ValueError, "pairs is a dict of outputs and inputs, and is empty");
    }
    for (const auto& [output, input] : names) given_pairs.push_back({output.c_str(), input.c_str()});
    std::vector<std::string> shape_names;
    std::vector<std::vector<std::int64_t>> lengths;
    std::vector<sluice_input_shape> given_shapes;
    if (!shapes.is_none()) {
        for (const auto& [name, shape] : dict_in(shapes, "shapes")) {
            shape_names.push_back(text_in(name, "shapes"));
            lengths.push_back(lengths_in(shape, "input '" + shape_names.back() + "'"));
        }
    }
    for (std::size_t i = 0; i < shape_names.size(); ++i)
        given_shapes.push_back({shape_names[i].c_str(), lengths[i].data(), lengths[i].size()});
    const sluice_session_options options = {sizeof(options), given_pairs.data(), given_pairs.size(),
                                            given_shapes.data(), given_shapes.size()};
    sluice_session* handle = nullptr;
    check(sluice_session_create(of.handle(), &options, &handle));
    return nb::cast(new session(nb::borrow(self), handle), nb::rv_policy::take_ownership);
}

void bind_session(nb::module_& in) {
    nb::class_<session>(in, "Session", nb::is_weak_referenceable(),
                        "A network with memory: a step's outputs that are inputs of the next one stay in the session. "
                        "One thread at a time.")
        .def(
            "step",
            [](const session& self, nb::args args, nb::kwargs kwargs) { return self.step(args.ptr(), kwargs.ptr()); },
            "Takes the inputs that are no state, by position or by name, and returns the outputs that are no state, as "
            "net(x) does, without the GIL. After an error the state is what it was.")
        .def_prop_rw("state", &session::state, &session::set_state, nb::for_setter(nb::arg("values")),
                     "The state: a dict of arrays by the names of the inputs. A copy; set it to continue there.")
        .def_prop_ro("pairs", &session::pairs, "Which outputs are which inputs of the next step: {\"hn\": \"h0\"}.")
        .def("reset", &session::reset, "The state is zeros again.")
        .def("close", &session::close, "Ends the session and gives its memory back. The end of `with` does it.")
        .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
        .def("__exit__", [](session& self, nb::args) { self.close(); })
        .def("__repr__", &session::text);
}

}  // namespace sluice::python
