// SPDX-License-Identifier: Apache-2.0
#include "tensor.hpp"

#include <charconv>

#include "arguments.hpp"
#include "cuda_array.hpp"
#include "dlpack.hpp"
#include "host_buffer.hpp"
#include "interpreter_end.hpp"

namespace sluice::python {
namespace {

class tensor {
public:
    tensor(result_ptr owner, std::size_t index, const std::string& device)
        : owner_(std::move(owner)), memory_(memory_in(owner_, index)), shown_(memory_, false) {
        sluice_memory where = SLUICE_HOST;
        check(sluice_result_memory(owner_.get(), &where));
        if (where == SLUICE_DEVICE) {
            place_ = {dlpack::cuda, number_in(device)};
            device_ = device;
        }
    }

    nb::object shape() const { return shape_tuple(memory_.shape, memory_.rank); }
    const char* dtype() const noexcept { return dtype_name(memory_.type); }
    const std::string& device() const noexcept { return device_; }
    bool is_on_gpu() const noexcept { return place_.type == dlpack::cuda; }
    nb::object place() const { return nb::make_tuple(static_cast<int>(place_.type), static_cast<int>(place_.id)); }

    nb::object dlpack(nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) const;
    nb::object cuda_array() const;
    // For the buffer protocol. Sets Python's error and returns -1 when it cannot.
    int show(PyObject* self, Py_buffer* to, int flags);
    std::string text() const {
        return "<sluice.Tensor " + std::string(dtype()) + " " + nb::cast<std::string>(nb::str(shape())) + " on " +
               device_ + ">";
    }

private:
    static sluice_buffer memory_in(const result_ptr& owner, std::size_t index) {
        sluice_buffer memory{};
        check(sluice_result_output(owner.get(), index, &memory));
        return memory;
    }
    static std::int32_t number_in(const std::string& device) {
        std::int32_t number = 0;
        const std::size_t colon = device.find(':');
        if (colon != std::string::npos)
            std::from_chars(device.data() + colon + 1, device.data() + device.size(), number);
        return number;
    }
    void lend(void* stream) const {
        const work_in_flight call;
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = sluice_result_lend(owner_.get(), stream);
        }
        check(status);
    }

    result_ptr owner_;
    sluice_buffer memory_;
    host_buffer shown_;
    dlpack::device place_{dlpack::cpu, 0};
    std::string device_ = "cpu";
};

nb::object tensor::dlpack(nb::handle stream, nb::handle max_version, nb::handle dl_device, nb::handle copy) const {
    if (!is_on_gpu() && !stream.is_none()) raise(PyExc_BufferError, "a stream is given, and the memory is the host's");
    if (!dl_device.is_none() && !dl_device.equal(place())) {
        raise(PyExc_BufferError,
              (is_on_gpu() ? "the memory is on " + device_ : std::string("the memory is the host's")) +
                  ", and another device is requested");
    }
    if (!copy.is_none() && nb::cast<bool>(copy))
        raise(PyExc_BufferError, "a copy is requested; this gives the memory itself");
    if (is_on_gpu()) {
        if (const consumer_stream theirs = consumer_stream::of_dlpack(stream); theirs.waits) lend(theirs.handle);
    }
    const bool is_versioned = !max_version.is_none() && integer_in(nb::object(max_version[0])) >= 1;
    auto keeper = std::make_unique<result_ptr>(owner_);
    nb::object made = give_tensor(memory_, place_, is_versioned, keeper.get(),
                                  [](void* held) { delete static_cast<result_ptr*>(held); });
    static_cast<void>(keeper.release());
    return made;
}

// The legacy default stream waits for the contents, and is the stream that the interface names: so code that ignores
// the entry, and works on this stream, is ordered too.
nb::object tensor::cuda_array() const {
    if (!is_on_gpu()) throw nb::attribute_error("__cuda_array_interface__: the memory is the host's");
    const std::string type = cuda_array_type(memory_.type);
    if (type.empty()) {
        throw nb::attribute_error("__cuda_array_interface__: elements of bfloat16 have no type there: use __dlpack__");
    }
    lend(legacy_stream());
    nb::dict made;
    made["shape"] = shape();
    made["typestr"] = type;
    made["data"] = nb::make_tuple(shown_.bytes() != 0 ? reinterpret_cast<std::uintptr_t>(memory_.data) : 0, false);
    made["strides"] = nb::none();
    made["stream"] = reinterpret_cast<std::uintptr_t>(legacy_stream());
    made["version"] = 3;
    return made;
}

int tensor::show(PyObject* self, Py_buffer* to, int flags) {
    if (is_on_gpu()) {
        to->obj = nullptr;
        PyErr_Format(PyExc_BufferError, "the memory is on %s: take it by __dlpack__ or __cuda_array_interface__",
                     device_.c_str());
        return -1;
    }
    return shown_.show(self, to, flags);
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(+[](PyObject* self, Py_buffer* to, int flags) {
                                   return nb::inst_ptr<tensor>(self)->show(self, to, flags);
                               })},
                              {0, nullptr}};

}  // namespace

const char* dtype_name(sluice_type type) noexcept {
    static constexpr const char* names[] = {"",      "float16", "bfloat16", "float32", "float64", "int8",   "uint8",
                                            "int16", "uint16",  "int32",    "uint32",  "int64",   "uint64", "bool"};
    return names[type];
}

result_ptr owned(sluice_result* result) { return result_ptr(result, sluice_result_destroy); }

result_ptr owned_with(sluice_result* result, nb::object network) {
    return result_ptr(result, [kept = network.release()](sluice_result* of) {
        sluice_result_destroy(of);
        if (Py_IsInitialized() == 0) return;  // the interpreter has ended, and its objects with it
        const nb::gil_scoped_acquire with_gil;
        kept.dec_ref();
    });
}

nb::object shape_tuple(const std::int64_t* lengths, std::size_t rank) {
    nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(rank)));
    if (!made.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < rank; ++i)
        PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(lengths[i]));
    return made;
}

nb::object tensor_of(const result_ptr& result, std::size_t index, const std::string& device) {
    return nb::cast(new tensor(result, index, device), nb::rv_policy::take_ownership);
}

bool is_tensor(nb::handle object) { return nb::isinstance<tensor>(object); }

void bind_tensor(nb::module_& in) {
    nb::class_<tensor>(in, "Tensor", nb::type_slots(tensor_slots),
                       "An output in the memory of its device: for torch.from_dlpack and the like.")
        .def_prop_ro("shape", &tensor::shape, "The lengths of the dimensions.")
        .def_prop_ro("dtype", &tensor::dtype, "NumPy's name of the elements' type, or \"bfloat16\".")
        .def_prop_ro("device", &tensor::device, "\"cpu\", or the GPU: \"cuda:0\".")
        .def("__dlpack__", &tensor::dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
             nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
             "The memory for another library, without a copy. On a GPU, `stream` waits for the contents.")
        .def("__dlpack_device__", &tensor::place, "The type and the number of the device, as DLPack has them.")
        .def_prop_ro("__cuda_array_interface__", &tensor::cuda_array,
                     "The memory on a GPU, for CuPy, Numba and the like.")
        .def("__repr__", &tensor::text);
}

}  // namespace sluice::python
