// SPDX-License-Identifier: Apache-2.0
#include "array_outputs.hpp"

#include <atomic>
#include <cstring>

#include "tensor.hpp"

namespace sluice::python {
namespace {

// Below this a new array and a copy take less time than an array around foreign memory, which NumPy makes in about
// a microsecond.
constexpr std::size_t copied_bytes = std::size_t{16} << 10;

// A new array with a copy of the elements.
nb::object copy_of(const sluice_buffer& from, std::size_t bytes) {
    const nb::object shape = shape_tuple(from.shape, from.rank);
    PyObject* const arguments[] = {shape.ptr(), numpy().types[static_cast<std::size_t>(from.type)].ptr()};
    nb::object made = nb::steal(PyObject_Vectorcall(numpy().empty.ptr(), arguments, 2, nullptr));
    Py_buffer view;
    if (!made.is_valid() || PyObject_GetBuffer(made.ptr(), &view, PyBUF_WRITABLE) != 0) throw nb::python_error();
    if (bytes != 0) std::memcpy(view.buf, from.data, bytes);
    PyBuffer_Release(&view);
    return made;
}

// Codes become an array of str, whose elements are objects, as ONNX Runtime gives it.
nb::object texts_of(const network& what, const sluice_buffer& codes) {
    std::size_t count = 1;
    for (std::size_t i = 0; i < codes.rank; ++i) count *= static_cast<std::size_t>(codes.shape[i]);
    const auto* const from = static_cast<const std::int64_t*>(codes.data);
    const nb::object flat = numpy().empty(nb::make_tuple(count), "object");
    for (std::size_t i = 0; i < count; ++i) {
        const char* text = nullptr;
        std::size_t length = 0;
        check(sluice_network_text(what.handle(), from[i], &text, &length));
        flat[i] = nb::str(text, length);
    }
    return flat.attr("reshape")(shape_tuple(codes.shape, codes.rank));
}

nb::object array_of(const network& what, const result_ptr& result, std::size_t index) {
    sluice_buffer output{};
    check(sluice_result_output(result.get(), index, &output));
    if (what.outputs()[index].is_text) return texts_of(what, output);
    if (output.type == SLUICE_BF16) return tensor_of(result, index, what.device());
    std::size_t bytes = sluice_type_size(output.type);
    for (std::size_t i = 0; i < output.rank; ++i) bytes *= static_cast<std::size_t>(output.shape[i]);
    if (bytes <= copied_bytes) return copy_of(output, bytes);
    return numpy().asarray(tensor_of(result, index, what.device()));
}

const numpy_names* find_numpy() {
    auto made = std::make_unique<numpy_names>();
    const nb::module_ found = nb::module_::import_("numpy");
    made->empty = found.attr("empty");
    made->asarray = found.attr("asarray");
    for (sluice_type each = SLUICE_F16; each <= SLUICE_BOOL; ++each) {
        if (each != SLUICE_BF16) made->types[static_cast<std::size_t>(each)] = found.attr("dtype")(dtype_name(each));
    }
    return made.release();
}

}  // namespace

const numpy_names& numpy() {
    static std::atomic<const numpy_names*> found{nullptr};  // for the process's life
    const numpy_names* now = found.load(std::memory_order_acquire);
    if (now == nullptr) {
        const numpy_names* const made = find_numpy();  // two threads may come here: then one is left over
        now = found.compare_exchange_strong(now, made, std::memory_order_acq_rel) ? made : now;
    }
    return *now;
}

namespace {

// One output as it is, several as a dict by name.
template <typename Make>
nb::object outputs_of(const network& what, const Make& make) {
    const std::vector<named_value>& all = what.outputs();
    if (all.size() == 1) return make(0);
    nb::dict made;
    for (std::size_t i = 0; i < all.size(); ++i) made[all[i].name] = make(i);
    return made;
}

}  // namespace

nb::object array_copy(const sluice_buffer& from) {
    std::size_t bytes = sluice_type_size(from.type);
    for (std::size_t d = 0; d < from.rank; ++d) bytes *= static_cast<std::size_t>(from.shape[d]);
    return copy_of(from, bytes);
}

nb::object arrays_of(const network& what, const result_ptr& result) {
    return outputs_of(what, [&](std::size_t i) { return array_of(what, result, i); });
}

nb::object chosen_arrays_of(const network& what, const result_ptr& result, const std::vector<std::size_t>& choice,
                            bool is_one) {
    if (is_one) return array_of(what, result, choice[0]);
    nb::dict made;
    for (const std::size_t each : choice) made[what.outputs()[each].name] = array_of(what, result, each);
    return made;
}

nb::object tensors_of(const network& what, const result_ptr& result) {
    return outputs_of(what, [&](std::size_t i) { return tensor_of(result, i, what.device()); });
}

}  // namespace sluice::python
