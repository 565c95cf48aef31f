// SPDX-License-Identifier: Apache-2.0
#include "builder.hpp"

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "arguments.hpp"
#include "array_inputs.hpp"
#include "array_outputs.hpp"
#include "host_buffer.hpp"
#include "runtime.hpp"

namespace sluice::python {
namespace {

// Attributes of a node, from a dict, with what they point to.
class attributes {
public:
    explicit attributes(const nb::dict& from) {
        for (const auto& [name, value] : from) add(nb::cast<std::string>(name), value);
    }
    const sluice_attribute* data() const noexcept { return all_.data(); }
    std::size_t size() const noexcept { return all_.size(); }

private:
    void add(const std::string& name, nb::handle value) {
        sluice_attribute made{};
        made.name = texts_.emplace_back(name).c_str();
        if (nb::isinstance<nb::int_>(value)) {  // True and False too
            made.kind = SLUICE_INTEGER;
            made.integer = integer_in(value);
        } else if (nb::isinstance<nb::float_>(value)) {
            made.kind = SLUICE_NUMBER;
            made.number = nb::cast<float>(value);
        } else if (nb::isinstance<nb::str>(value)) {
            made.kind = SLUICE_TEXT;
            made.text = texts_.emplace_back(nb::cast<std::string>(value)).c_str();
        } else if (nb::isinstance<nb::tuple>(value) || nb::isinstance<nb::list>(value)) {
            add_list(made, name, value);
        } else {
            refuse(name);
        }
        all_.push_back(made);
    }
    void add_list(sluice_attribute& to, const std::string& name, nb::handle values) {
        bool are_integers = true;
        for (const nb::handle each : values) {
            if (nb::isinstance<nb::int_>(each)) continue;
            if (!nb::isinstance<nb::float_>(each)) refuse(name);
            are_integers = false;
        }
        to.kind = are_integers ? SLUICE_INTEGERS : SLUICE_NUMBERS;
        std::vector<std::int64_t>& integers = integers_.emplace_back();
        std::vector<float>& numbers = numbers_.emplace_back();
        for (const nb::handle each : values) {
            if (are_integers) {
                integers.push_back(integer_in(each));
            } else {
                numbers.push_back(nb::cast<float>(nb::float_(each)));
            }
        }
        to.count = integers.size() + numbers.size();
        to.integers = integers.data();
        to.numbers = numbers.data();
    }
    [[noreturn]] static void refuse(const std::string& name) {
        raise(PyExc_TypeError,
              "the attribute '" + name + "' is an int, a float, a str, or a list of ints or of floats");
    }

    std::deque<std::string> texts_;
    std::deque<std::vector<std::int64_t>> integers_;
    std::deque<std::vector<float>> numbers_;
    std::vector<sluice_attribute> all_;
};

sluice_type type_named(const std::string& name) {
    for (sluice_type each = SLUICE_F16; each <= SLUICE_BOOL; ++each)
        if (name == dtype_name(each)) return each;
    raise(PyExc_TypeError, "there is no type '" + name + "' of elements in networks");
}

// The numbers of a constant: a copy, which belongs to the pipelines that use it.
class constant {
public:
    explicit constant(nb::handle array) {
        array_input given;
        given.take_host(array.ptr(), "a constant");
        const sluice_tensor& from = given.tensor();
        shape_.assign(from.shape, from.shape + from.rank);
        std::size_t bytes = sluice_type_size(from.type);
        for (const std::int64_t each : shape_) bytes *= static_cast<std::size_t>(each);
        bytes_.resize(bytes);
        if (bytes != 0) std::memcpy(bytes_.data(), from.data, bytes);
        tensor_ = {bytes_.data(), shape_.data(), shape_.size(), from.type, SLUICE_HOST};
        shown_.emplace(sluice_buffer{bytes_.data(), shape_.data(), shape_.size(), from.type}, true);
    }
    constant(const constant&) = delete;  // points into itself
    constant& operator=(const constant&) = delete;

    const sluice_tensor& tensor() const noexcept { return tensor_; }
    int show(PyObject* self, Py_buffer* to, int flags) { return shown_->show(self, to, flags); }

private:
    std::vector<std::int64_t> shape_;
    std::vector<std::byte> bytes_;
    sluice_tensor tensor_{};
    std::optional<host_buffer> shown_;
};

PyType_Slot constant_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(+[](PyObject* self, Py_buffer* to, int flags) {
         return nb::inst_ptr<constant>(self)->show(self, to, flags);
     })},
    {0, nullptr}};

class builder {
public:
    explicit builder(const std::string& name) {
        sluice_builder* made = nullptr;
        check(sluice_builder_create(name.c_str(), &made));
        handle_.reset(made);
    }

    std::size_t input(const std::string& name, const nb::tuple& shape, const std::string& dtype) {
        std::vector<std::string> names;
        names.reserve(nb::len(shape));  // the dimensions point into it
        std::vector<sluice_dimension> dimensions;
        for (const nb::handle each : shape) {
            if (nb::isinstance<nb::str>(each)) {
                dimensions.push_back({SLUICE_ANY_LENGTH, names.emplace_back(nb::cast<std::string>(each)).c_str()});
            } else if (nb::isinstance<nb::int_>(each)) {
                dimensions.push_back({integer_in(each), ""});
                if (dimensions.back().length < 0) raise(PyExc_ValueError, "a length is at least 0, or has a name");
            } else {
                raise(PyExc_TypeError, "a length of a shape is an int, or a str that names it");
            }
        }
        std::size_t value = 0;
        check(sluice_builder_input(handle_.get(), name.c_str(), dimensions.data(), dimensions.size(), type_named(dtype),
                                   &value));
        return value;
    }
    std::size_t add_constant(const constant& numbers) {
        std::size_t value = 0;
        check(sluice_builder_constant(handle_.get(), &numbers.tensor(), &value));
        return value;
    }
    std::size_t node(const std::string& op, const nb::list& inputs, const nb::dict& with) {
        std::vector<std::size_t> places;
        for (const nb::handle each : inputs)
            places.push_back(each.is_none() ? SLUICE_NO_VALUE : nb::cast<std::size_t>(each));
        const attributes all(with);
        std::size_t value = 0;
        check(sluice_builder_node(handle_.get(), op.c_str(), places.data(), places.size(), all.data(), all.size(),
                                  &value, 1));
        return value;
    }
    std::string describe(std::size_t value) {
        const char* text = nullptr;
        check(sluice_builder_describe(handle_.get(), value, &text));
        return text;
    }
    void output(const std::string& name, std::size_t value) {
        check(sluice_builder_output(handle_.get(), name.c_str(), value));
    }
    nb::object make(nb::handle machine, const std::string& device, std::size_t streams, const std::string& precision) {
        return make_on(machine, device, streams, precision,
                       [this](sluice_runtime* on, const sluice_network_options* options, sluice_network** made) {
                           return sluice_builder_make(handle_.get(), on, options, made);
                       });
    }

private:
    std::unique_ptr<sluice_builder, void (*)(sluice_builder*)> handle_{nullptr, sluice_builder_destroy};
};

}  // namespace

void bind_builder(nb::module_& in) {
    nb::class_<constant>(in, "_Constant", nb::type_slots(constant_slots)).def(nb::init<nb::handle>(), nb::arg("array"));
    nb::class_<builder>(in, "_Builder")
        .def(nb::init<const std::string&>(), nb::arg("name"))
        .def("input", &builder::input)
        .def("constant", &builder::add_constant)
        .def("node", &builder::node)
        .def("describe", &builder::describe)
        .def("output", &builder::output)
        .def("make", &builder::make);
}

}  // namespace sluice::python
