// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "interpreter_end.hpp"
#include "network.hpp"

namespace sluice::python {
namespace {

nb::handle device_type;  // kept for the process's life

class machine {
public:
    machine(std::size_t cpu_devices, std::size_t cpu_workers, std::uint64_t cpu_memory_bytes, bool cuda,
            bool flush_denormals) {
        const work_in_flight call;
        sluice_runtime_options options{};
        options.size = sizeof(options);
        options.cpu_devices = cpu_devices;
        options.cpu_workers = cpu_workers;
        options.cpu_memory_bytes = cpu_memory_bytes;
        options.without_cuda = cuda ? 0 : 1;
        options.flush_denormals = flush_denormals ? 1 : 0;
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = sluice_runtime_create(&options, &handle_);
        }
        check(status);
    }
    machine(const machine&) = delete;  // owns the handle
    machine& operator=(const machine&) = delete;
    ~machine() {
        if (!birth_.is_here()) return;
        const gil_given_away without_gil;
        sluice_runtime_destroy(handle_);
    }

    nb::object devices() const {
        std::size_t count = 0;
        check(sluice_runtime_device_count(handle_, &count));
        nb::list made;
        for (std::size_t i = 0; i < count; ++i) {
            sluice_device_info info{};
            info.size = sizeof(info);
            check(sluice_runtime_device(handle_, i, &info));
            made.append(device_type(info.name, info.kind == SLUICE_CUDA ? "cuda" : "cpu", info.description,
                                    info.compute_units, info.memory_bytes));
        }
        return nb::tuple(made);
    }

    std::string text() const {
        std::string text = "<sluice.Runtime:";
        for (nb::handle each : devices()) text += " " + nb::cast<std::string>(each.attr("name"));
        return text + ">";
    }

    const char* why_no_gpu() const {
        const char* why = nullptr;
        check(sluice_runtime_why_no_gpu(handle_, &why));
        return why;
    }

    // `read` calls one of the functions that load, without the GIL. `made_by` is how to make the network again.
    // `file` is the file's path, where there is one.
    template <typename Read>
    nb::object load(Read&& read, nb::object made_by = nb::none(), const nb::bytes* file = nullptr) const {
        birth_.require("this runtime");
        const work_in_flight call;
        sluice_network* made = nullptr;
        sluice_status status = SLUICE_OK;
        {
            const nb::gil_scoped_release without_gil;
            status = read(handle_, &made);
        }
        if (status != SLUICE_OK && file != nullptr) raise_of_file(status, *file);
        check(status);
        return nb::cast(new network(made, std::move(made_by)), nb::rv_policy::take_ownership);
    }

private:
    sluice_runtime* handle_ = nullptr;
    const made_here birth_;
};

sluice_network_options options_of(const std::string& device, std::size_t streams, const std::string& precision) {
    sluice_network_options options{};
    options.size = sizeof(options);
    options.device = device.c_str();
    options.streams = streams;
    options.precision = precision.c_str();
    return options;
}

// A str, bytes or os.PathLike as the system's bytes.
nb::bytes path_of(nb::handle path) {
    PyObject* made = nullptr;
    if (PyUnicode_FSConverter(path.ptr(), &made) == 0) throw nb::python_error();
    return nb::steal<nb::bytes>(made);
}

nb::object load(const machine& self, nb::handle path, const std::string& device, std::size_t streams,
                const std::optional<std::string>& hidden, const std::optional<std::string>& output,
                const std::string& precision) {
    const nb::bytes file = path_of(path);
    sluice_network_options options = options_of(device, streams, precision);
    if (hidden) options.hidden_activation = hidden->c_str();
    if (output) options.output_activation = output->c_str();
    nb::dict named;
    named["streams"] = streams;
    named["hidden_activation"] = hidden;
    named["output_activation"] = output;
    named["precision"] = precision;
    return self.load([&](sluice_runtime* on,
                         sluice_network** made) { return sluice_network_load(on, file.c_str(), &options, made); },
                     nb::make_tuple("load", nb::module_::import_("os.path").attr("abspath")(file), device, named),
                     &file);
}

nb::object loads(const machine& self, nb::bytes data, const std::string& device, const std::string& name,
                 std::size_t streams, const std::string& precision) {
    const sluice_network_options options = options_of(device, streams, precision);
    nb::dict named;
    named["name"] = name;
    named["streams"] = streams;
    named["precision"] = precision;
    return self.load(
        [&](sluice_runtime* on, sluice_network** made) {
            return sluice_network_load_memory(on, data.c_str(), data.size(), name.c_str(), &options, made);
        },
        nb::make_tuple("loads", data, device, named));
}

}  // namespace

nb::object make_on(nb::handle runtime, const std::string& device, std::size_t streams, const std::string& precision,
                   const network_maker& make) {
    if (!nb::isinstance<machine>(runtime)) raise(PyExc_TypeError, "runtime is no sluice.Runtime");
    const sluice_network_options options = options_of(device, streams, precision);
    return nb::inst_ptr<machine>(runtime)->load(
        [&](sluice_runtime* on, sluice_network** made) { return make(on, &options, made); });
}

void set_device_type(nb::object type) { device_type = type.release(); }

void bind_runtime(nb::module_& in) {
    nb::class_<machine>(in, "Runtime", nb::is_weak_referenceable(),
                        "Owns devices, their memory and their threads. It ends with its last network.")
        .def(nb::init<std::size_t, std::size_t, std::uint64_t, bool, bool>(), nb::kw_only(), nb::arg("cpu_devices") = 1,
             nb::arg("cpu_workers") = 0, nb::arg("cpu_memory_bytes") = 0, nb::arg("cuda") = true,
             nb::arg("flush_denormals") = false)
        .def_prop_ro("devices", &machine::devices, "The devices: GPUs first.")
        .def_prop_ro("why_no_gpu", &machine::why_no_gpu, "Why there is no GPU; empty when there is one.")
        .def("__repr__", &machine::text)
        .def("load", load, nb::arg("path"), nb::arg("device") = "auto", nb::kw_only(), nb::arg("streams") = 0,
             nb::arg("hidden_activation") = nb::none(), nb::arg("output_activation") = nb::none(),
             nb::arg("precision") = "f32",
             "Loads a network from a file, as sluice.load does, on a device of this runtime.")
        .def("loads", loads, nb::arg("data"), nb::arg("device") = "auto", nb::kw_only(), nb::arg("name") = "network",
             nb::arg("streams") = 0, nb::arg("precision") = "f32",
             "Loads a network from the bytes of an ONNX file, as sluice.loads does, on a device of this runtime.");
}

}  // namespace sluice::python
