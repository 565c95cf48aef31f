/* SPDX-License-Identifier: Apache-2.0
 * The C interface: networks from files, for C and for languages that call C.
 *
 *     sluice_runtime* runtime = NULL;
 *     sluice_network* network = NULL;
 *     sluice_result* result = NULL;
 *     const int64_t shape[2] = {1, 64};
 *     const sluice_tensor input = {pixels, shape, 2, SLUICE_F32, SLUICE_HOST};
 *     sluice_buffer logits;
 *     if (sluice_runtime_create(NULL, &runtime) || sluice_network_load(runtime, "digits.onnx", NULL, &network) ||
 *         sluice_network_run(network, &input, 1, &result) || sluice_result_output(result, 0, &logits)) {
 *         fprintf(stderr, "%s\n", sluice_last_error());
 *     }
 *
 * Link with libsluice_c: the CMake target sluice::c, or pkg-config sluice_c. The header is C11 and C++.
 *
 * Errors. Each function that can fail returns a sluice_status; SLUICE_OK is 0. After a failure the function has written
 * nothing to its out-parameters, and sluice_last_error() has the text. No C++ exception leaves the library. A null
 * pointer where an object is needed is SLUICE_INVALID_ARGUMENT; a pointer that does not point to a living object is
 * undefined, as everywhere in C.
 *
 * Owners. What a function creates, the caller destroys with the function ..._destroy of the same type; each of them
 * takes NULL too. The order does not matter: a network keeps its runtime, a run keeps its network, and a result needs
 * neither. Strings and arrays that a function gives belong to the object that was asked, and live as long as it does.
 *
 * Forks. In a child process, what needs the library's threads and was made before the fork (a runtime, a network, also
 * a prepared one, a run, a result in a GPU's memory) is refused with SLUICE_RUNTIME_CLOSED, and destroying it does
 * nothing. What the child makes itself works; on a GPU only where the parent has not used CUDA. Results in host memory
 * stay.
 *
 * Threads. All functions may be called on any thread, and on one object at the same time, except that nothing else may
 * use an object while it is destroyed, and that one thread at a time uses a sluice_prepared and a sluice_session.
 *
 * Costs. All functions take constant time, but for these: creating, loading and destroying; a search by name, which is
 * linear in the number of names; adding to a network that is built; and runs, profiles and waits, which take what the
 * network takes and the copies of what is in host memory.
 *
 * Sizes. Shapes are numbers of elements, row-major, the last dimension contiguous. Structures whose first member is
 * `size` grow in later versions: set it to sizeof the structure, and all that you do not use to 0, which is the
 * default.
 */
#ifndef SLUICE_C_SLUICE_H
#define SLUICE_C_SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface: functions and numbers are only added while the first number stays. */
#define SLUICE_C_VERSION_MAJOR 1
/* Functions and numbers that were added since. */
#define SLUICE_C_VERSION_MINOR 5

/* What a function returns: SLUICE_OK, or why it failed. */
typedef int32_t sluice_status;
enum {
    SLUICE_OK = 0,
    SLUICE_INVALID_ARGUMENT = 1, /* a call was made with arguments that it documents as wrong */
    SLUICE_SHAPE_MISMATCH = 2,   /* the number, types or shapes of tensors do not fit the network */
    SLUICE_DEVICE_NOT_FOUND = 3,
    SLUICE_OUT_OF_MEMORY = 4,
    SLUICE_UNSUPPORTED = 5,    /* this build, device or version cannot do what was requested */
    SLUICE_DEVICE_FAILED = 6,  /* the device reported a fault and accepts no more work; or a library on it failed */
    SLUICE_RUNTIME_CLOSED = 7, /* the runtime that owned the device has been destroyed, or is not in this process */
    SLUICE_TIMED_OUT = 8,      /* the run is not complete yet */
    SLUICE_CANCELED = 9,
    SLUICE_GRAPH_REFUSED = 10,
    SLUICE_BAD_FILE = 11,     /* a file's contents were refused */
    SLUICE_IO_FAILED = 12,    /* the operating system refused to read */
    SLUICE_OUT_OF_RANGE = 13, /* an index in the data points to an element that does not exist */
    SLUICE_INTERNAL = 14      /* an exception that is none of Sluice's */
};

/* Types of elements. */
typedef int32_t sluice_type;
enum {
    SLUICE_F16 = 1,
    SLUICE_BF16 = 2, /* the upper half of an f32 */
    SLUICE_F32 = 3,
    SLUICE_F64 = 4,
    SLUICE_I8 = 5,
    SLUICE_U8 = 6,
    SLUICE_I16 = 7,
    SLUICE_U16 = 8,
    SLUICE_I32 = 9,
    SLUICE_U32 = 10,
    SLUICE_I64 = 11,
    SLUICE_U64 = 12,
    SLUICE_BOOL = 13 /* one byte; any value but 0 is true */
};

/* Where the elements of a tensor are. */
typedef int32_t sluice_memory;
enum {
    SLUICE_HOST = 0,
    SLUICE_DEVICE = 1 /* memory of the network's device, e.g. from cudaMalloc */
};

/* Kinds of devices. */
typedef int32_t sluice_device_kind;
enum { SLUICE_CPU = 1, SLUICE_CUDA = 2 };

/* Elements that somebody else owns. */
typedef struct sluice_tensor {
    const void* data;     /* the first element; may be NULL when there are none */
    const int64_t* shape; /* `rank` lengths; may be NULL when rank is 0: a single element */
    size_t rank;          /* the number of dimensions */
    sluice_type type;     /* of the elements */
    sluice_memory memory; /* where `data` is */
} sluice_tensor;

/* Elements in host memory, or in the device's where a result is there, that may be written. */
typedef struct sluice_buffer {
    void* data;           /* the first element */
    const int64_t* shape; /* `rank` lengths */
    size_t rank;          /* the number of dimensions */
    sluice_type type;     /* of the elements */
} sluice_buffer;

/* Owns devices, their memory and their threads. */
typedef struct sluice_runtime sluice_runtime;
/* A network that is ready to run on a device. */
typedef struct sluice_network sluice_network;
/* The outputs of one run. */
typedef struct sluice_result sluice_result;
/* A run that was submitted. */
typedef struct sluice_run sluice_run;
/* A network that is ready for inputs of given shapes. Since 1.4. */
typedef struct sluice_prepared sluice_prepared;
/* A network with memory, step by step. Since 1.5. */
typedef struct sluice_session sluice_session;

/* --- errors and versions ------------------------------------------------------------------------------------- */

/* The text of the last failure on the calling thread; empty when there was none. Valid until the next failure on this
 * thread, or its end. Never NULL. */
const char* sluice_last_error(void);

/* The name of a status: "shape mismatch". Never NULL; of an unknown number "unknown status". */
const char* sluice_status_name(sluice_status status);

/* The name of a type: "f32". Never NULL; of an unknown number "unknown type". */
const char* sluice_type_name(sluice_type type);

/* The bytes of one element; 0 for an unknown number. */
size_t sluice_type_size(sluice_type type);

/* The library's version: "0.1.0". */
const char* sluice_version(void);

/* The interface's version that the library has: 100 * major + minor. */
int sluice_c_version(void);

/* --- runtimes and devices ------------------------------------------------------------------------------------ */

/* How a runtime is created. A member of 0 has its default. */
typedef struct sluice_runtime_options {
    size_t size;               /* sizeof(sluice_runtime_options) */
    size_t cpu_devices;        /* virtual CPU devices, cpu:0, cpu:1, ...; 0: one */
    size_t cpu_workers;        /* worker threads of each; 0: divides the cores that the calling thread may use */
    uint64_t cpu_memory_bytes; /* that each may use; 0: no limit */
    int32_t without_cuda;      /* not 0: does not look for GPUs */
    /* Since 1.3. */
    int64_t flush_denormals; /* not 0: CPU devices take denormal numbers as 0, which is faster where there are any */
} sluice_runtime_options;

/* Creates a runtime: it owns devices, their memory and their threads. A machine without a GPU is no error. `options`
 * may be NULL. Blocks while devices are found; a GPU takes some 100 ms.
 * Errors: SLUICE_INVALID_ARGUMENT, SLUICE_UNSUPPORTED for options of a newer version, SLUICE_OUT_OF_MEMORY. */
sluice_status sluice_runtime_create(const sluice_runtime_options* options, sluice_runtime** runtime);

/* The runtime ends with the last object that uses it. The call that ends it blocks until all work is complete. */
void sluice_runtime_destroy(sluice_runtime* runtime);

/* The number of devices: GPUs first, then CPU devices. */
sluice_status sluice_runtime_device_count(const sluice_runtime* runtime, size_t* count);

/* What is known of a device. */
typedef struct sluice_device_info {
    size_t size;             /* sizeof(sluice_device_info) */
    const char* name;        /* "cuda:0", "cpu:1" */
    const char* description; /* the model of the processor */
    sluice_device_kind kind; /* SLUICE_CPU or SLUICE_CUDA */
    int32_t compute_units;   /* multiprocessors, or workers */
    uint64_t memory_bytes;   /* of the device */
} sluice_device_info;

/* Fills `info`, whose `size` is set; the strings belong to the runtime. Errors: SLUICE_INVALID_ARGUMENT for an index
 * that is not below the count. */
sluice_status sluice_runtime_device(const sluice_runtime* runtime, size_t index, sluice_device_info* info);

/* Why there is no GPU: "no NVIDIA driver was found"; empty when there is one. The string belongs to the runtime. */
sluice_status sluice_runtime_why_no_gpu(const sluice_runtime* runtime, const char** why);

/* --- networks ------------------------------------------------------------------------------------------------ */

/* How a network is loaded. A member of 0 or NULL has its default. */
typedef struct sluice_network_options {
    size_t size;        /* sizeof(sluice_network_options) */
    const char* device; /* "cpu", "cuda:1", "auto"; NULL: "auto", the first GPU or else the first CPU device */
    size_t streams;     /* how many runs may overlap on the device; 0: four */
    const char* hidden_activation; /* of a safetensors file that does not say it: "relu"; NULL: the file says it */
    const char* output_activation; /* the same for the last layer */
    /* Since 1.1. */
    const char* precision; /* of products and convolutions with constant weights: "f32", "bf16", "f16", "int8"; NULL:
                              "f32", which rounds nothing. Inputs and outputs keep their types. */
} sluice_network_options;

/* Loads a network and puts its constants on the device: an ONNX file, or, when the name ends with .safetensors, a
 * multi-layer perceptron. `path` is in the system's encoding. `options` may be NULL. Blocks; reads the whole file.
 * Errors: SLUICE_IO_FAILED, SLUICE_BAD_FILE, SLUICE_UNSUPPORTED for operators that Sluice does not have and for options
 * of a newer version, SLUICE_DEVICE_NOT_FOUND, SLUICE_OUT_OF_MEMORY, SLUICE_INVALID_ARGUMENT. */
sluice_status sluice_network_load(sluice_runtime* runtime, const char* path, const sluice_network_options* options,
                                  sluice_network** network);

/* The same from an ONNX file in memory, of `bytes` bytes; the memory may be freed afterwards. `name` is for messages,
 * and its folder is where the file's external data is looked for; NULL: "network". */
sluice_status sluice_network_load_memory(sluice_runtime* runtime, const void* file, size_t bytes, const char* name,
                                         const sluice_network_options* options, sluice_network** network);

/* Frees the network; runs that were submitted continue. */
void sluice_network_destroy(sluice_network* network);

/* How many inputs the network has. */
sluice_status sluice_network_input_count(const sluice_network* network, size_t* count);
/* How many outputs the network has. */
sluice_status sluice_network_output_count(const sluice_network* network, size_t* count);

#define SLUICE_ANY_RANK ((size_t)-1)    /* not even the number of dimensions is known */
#define SLUICE_ANY_LENGTH ((int64_t)-1) /* the length is that of the input at each run */

/* One dimension of a network's input or output. */
typedef struct sluice_dimension {
    int64_t length;   /* or SLUICE_ANY_LENGTH */
    const char* name; /* "batch"; dimensions of one name have one length. Empty when it has none */
} sluice_dimension;

/* An input or output of a network. */
typedef struct sluice_value_info {
    size_t size;                        /* sizeof(sluice_value_info) */
    const char* name;                   /* as in the file */
    const sluice_dimension* dimensions; /* `rank` of them; NULL when the rank is 0 or SLUICE_ANY_RANK */
    size_t rank;                        /* the number of dimensions, or SLUICE_ANY_RANK */
    sluice_type type;                   /* of the elements */
    int32_t needs_host;                 /* not 0: of inputs, the elements have to be in host memory */
    int32_t is_text;                    /* not 0: the elements are codes of texts (sluice_network_text). Since 1.4 */
} sluice_value_info;

/* Fills `info`, whose `size` is set; what it points to belongs to the network. Errors: SLUICE_INVALID_ARGUMENT for an
 * index that is not below the count. */
sluice_status sluice_network_input(const sluice_network* network, size_t index, sluice_value_info* info);
/* The same for an output. */
sluice_status sluice_network_output(const sluice_network* network, size_t index, sluice_value_info* info);

/* The index of the input of this name. Errors: SLUICE_INVALID_ARGUMENT, with the names that there are. */
sluice_status sluice_network_find_input(const sluice_network* network, const char* name, size_t* index);
/* The same for an output. */
sluice_status sluice_network_find_output(const sluice_network* network, const char* name, size_t* index);

/* Inputs and outputs that are texts, such as categories and labels, are codes of texts, SLUICE_I64. The code of the
 * `length` bytes at `text`: -1 for a text that the network does not know. Since 1.4. */
sluice_status sluice_network_text_code(const sluice_network* network, const char* text, size_t length, int64_t* code);
/* The text with this code; it belongs to the network. Codes are 0, 1, ... Since 1.4. Errors: SLUICE_OUT_OF_RANGE for a
 * code that is not a text's. */
sluice_status sluice_network_text(const sluice_network* network, int64_t code, const char** text, size_t* length);

/* The cudaStream_t on which runs with inputs in SLUICE_DEVICE memory are computed: they come after all that is in this
 * stream when they are called, so let it wait for your event. The stream belongs to the network. Errors:
 * SLUICE_UNSUPPORTED for a network on a CPU device. */
sluice_status sluice_network_cuda_stream(const sluice_network* network, void** stream);

/* Runs with inputs in SLUICE_DEVICE memory that are called from now on, and all runs of sluice_network_forward, come
 * after what is in `cuda_stream` now. Does not block. `cuda_stream` is a cudaStream_t of the network's GPU; NULL is the
 * legacy default stream. Since 1.2. Errors: SLUICE_UNSUPPORTED for a network on a CPU device; SLUICE_INVALID_ARGUMENT
 * for a stream that is being captured. */
sluice_status sluice_network_wait_for_stream(const sluice_network* network, void* cuda_stream);

/* The name of the network's device: "cuda:0". The string belongs to the network. */
sluice_status sluice_network_device(const sluice_network* network, const char** name);

/* What a precision other than f32 made of the network's products and convolutions. Since 1.1. */
typedef struct sluice_rounding_info {
    size_t size;             /* sizeof(sluice_rounding_info) */
    const char* precision;   /* that was asked for: "bf16" */
    size_t rounded;          /* products and convolutions that are computed in it */
    size_t quantized;        /* those that are computed with the integers of the file */
    const char* const* kept; /* `kept_count` texts: a product or convolution that is not rounded, a colon, why */
    size_t kept_count;       /* how many texts */
    const char* how;         /* how the device multiplies these numbers: "AVX-512-BF16" */
    int32_t is_native;       /* not 0: it has instructions for them; else they are widened first, which saves no time */
} sluice_rounding_info;

/* Fills `info`, whose `size` is set; what it points to belongs to the network. How much the outputs change depends on
 * the inputs: run the network in f32 too and compare. Since 1.1. */
sluice_status sluice_network_rounding(const sluice_network* network, sluice_rounding_info* info);

/* --- running ------------------------------------------------------------------------------------------------- */

/* Runs the network on `count` inputs, in the network's order. Blocks until the outputs are in host memory. The inputs'
 * memory is only read, and not used after the call. On a CPU device, from the third run with inputs of the same shapes
 * on, those that begin at a multiple of 16 bytes are not copied. Errors: SLUICE_SHAPE_MISMATCH for a wrong number of
 * inputs, another type or another shape, by name; SLUICE_INVALID_ARGUMENT; SLUICE_OUT_OF_RANGE for an index in the
 * data; SLUICE_UNSUPPORTED; SLUICE_OUT_OF_MEMORY; SLUICE_DEVICE_FAILED. */
sluice_status sluice_network_run(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                 sluice_result** result);

/* The same, and writes the outputs to the caller's memory. Each buffer's type and shape must be its output's: else
 * SLUICE_SHAPE_MISMATCH, and nothing is written to any of them. Where the network can be prepared, on a CPU device,
 * this allocates no memory from the third run with inputs of the same shapes on, if its values have at most 64 MiB;
 * primitives of oneDNN may. The memory of an input may be that of an output. */
sluice_status sluice_network_run_into(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                      const sluice_buffer* outputs, size_t output_count);

/* Called once for a run that was submitted, on a thread of the runtime, when the run is complete or has failed. `run`
 * is valid during the call. The function should be short: no other run's callback is called meanwhile. It may call all
 * functions of this interface; a wait there for a run that is not complete is refused. It must not throw. */
typedef void (*sluice_callback)(sluice_run* run, void* context);

/* Submits a run and does not wait for it. Inputs in host memory are copied before the call returns; those in
 * SLUICE_DEVICE memory must not change until the run is complete. `callback` may be NULL. It is called also when the
 * run is destroyed before, and perhaps before this function returns. The caller destroys `*run` at any time; its work
 * continues. A program should not end before its runs are complete. Errors: as of sluice_network_run; then the callback
 * is not called. */
sluice_status sluice_network_submit(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                    sluice_callback callback, void* context, sluice_run** run);

/* A time to wait: no limit. */
#define SLUICE_FOREVER ((int64_t)-1)

/* Waits at most that many nanoseconds; 0 asks and does not block, SLUICE_FOREVER waits without limit. When the run is
 * complete, gives its result, which the caller destroys; `result` may be NULL. A run gives its result once: a second
 * request is SLUICE_INVALID_ARGUMENT. Several threads may wait. Errors: SLUICE_TIMED_OUT when it is not complete yet;
 * what the run failed with; and SLUICE_INVALID_ARGUMENT in a callback, when this would block. */
sluice_status sluice_run_wait(const sluice_run* run, int64_t nanoseconds, sluice_result** result);

/* Frees the handle of a run. Does not wait: the run continues, and its callback is called. */
void sluice_run_destroy(sluice_run* run);

/* Called once, on a thread of the runtime, or before the function returns. It must not throw. */
typedef void (*sluice_release)(void* context);

/* Runs the network and leaves the outputs where the device computes them, for code of others on this device. Since 1.2.
 *
 * On a GPU it submits the run and does not wait. Inputs in host memory are copied before the call returns; those in
 * SLUICE_DEVICE memory must not change until `release(context)` is called, which is when the run is complete.
 * sluice_result_output gives addresses of the device, which sluice_result_lend makes ready for a stream. Indices that
 * the GPU computes are not checked: an element at a place that is not there is NaN (of integers the number farthest
 * from 0). On a CPU device this is sluice_network_run, and the outputs are in host memory.
 *
 * `release` may be NULL. Errors: as of sluice_network_run; then `release` is not called, and the inputs are not used
 * any more. */
sluice_status sluice_network_forward(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                     sluice_release release, void* context, sluice_result** result);

/* Where the outputs are: SLUICE_HOST, or SLUICE_DEVICE after sluice_network_forward on a GPU. Since 1.2. */
sluice_status sluice_result_memory(const sluice_result* result, sluice_memory* memory);

/* Lends outputs in SLUICE_DEVICE memory to a stream: what is put into it from now on sees them complete. What is in it
 * when the result is destroyed may still use them: their memory has its next user after that. Several streams may be
 * lent to; each lives until the result is destroyed. Does not block. `cuda_stream` is a cudaStream_t of the same GPU;
 * NULL is the legacy default stream. Since 1.2. Errors: SLUICE_UNSUPPORTED for outputs in host memory and for
 * cudaStreamPerThread; SLUICE_INVALID_ARGUMENT for a stream that is being captured; SLUICE_DEVICE_FAILED. */
sluice_status sluice_result_lend(const sluice_result* result, void* cuda_stream);

/* --- prepared networks --------------------------------------------------------------------------------------- */

/* The shape that an input shall have. */
typedef struct sluice_input_shape {
    const char* name;     /* the input's */
    const int64_t* shape; /* `rank` lengths; may be NULL when rank is 0 */
    size_t rank;          /* the number of dimensions */
} sluice_input_shape;

/* Makes the network ready for inputs of these shapes, with memory of its own, in which inputs are written and outputs
 * are read; inputs whose shape the file says need not be named. Blocks: it chooses how to compute, and runs with zeros.
 * The object keeps its network. Since 1.4. Errors: SLUICE_INVALID_ARGUMENT for a name that no input has, or twice;
 * SLUICE_SHAPE_MISMATCH for an input without a shape and for a shape that is not the file's; SLUICE_UNSUPPORTED, with
 * the reason, where random numbers are drawn, or where numbers of an input decide about shapes or about what is
 * computed: sluice_prepared_create_fixed takes these. sluice_network_run runs all of them. And as of
 * sluice_network_run. */
sluice_status sluice_prepared_create(const sluice_network* network, const sluice_input_shape* shapes, size_t count,
                                     sluice_prepared** prepared);

/* An input whose numbers decide about shapes or about what is computed, with the numbers of every run. Since 1.5. */
typedef struct sluice_fixed_input {
    const char* name;      /* the input's */
    sluice_tensor numbers; /* in host memory; copied */
} sluice_fixed_input;

/* As sluice_prepared_create, of a network that has such inputs. A fixed one needs no shape, and has no memory to write.
 * Since 1.5. Errors: also SLUICE_INVALID_ARGUMENT for an input whose numbers decide about nothing, and for numbers of
 * another type than the input's. */
sluice_status sluice_prepared_create_fixed(const sluice_network* network, const sluice_input_shape* shapes,
                                           size_t count, const sluice_fixed_input* fixed, size_t fixed_count,
                                           sluice_prepared** prepared);

/* Fills `input`: where the input is written, zeros at first. The host memory stays where it is, and keeps its values,
 * until the object is destroyed. Since 1.4. Errors: SLUICE_INVALID_ARGUMENT for an index that is not below the count of
 * the network's inputs, and for a fixed input. */
sluice_status sluice_prepared_input(const sluice_prepared* prepared, size_t index, sluice_buffer* input);

/* Fills `output`: what the latest run left, zeros before the first one. It stays where it is, and the next run
 * writes it. Since 1.4. Errors: as of sluice_prepared_input. */
sluice_status sluice_prepared_output(const sluice_prepared* prepared, size_t index, sluice_buffer* output);

/* Computes the outputs from the inputs, and returns when they are there. On a CPU device of one worker, on the thread
 * that created the object or that has run it before, this allocates no memory, takes no lock and does not call the
 * system; primitives of oneDNN may allocate. Since 1.4. Errors: SLUICE_OUT_OF_RANGE for an index in the data;
 * SLUICE_INVALID_ARGUMENT while another thread runs it; SLUICE_RUNTIME_CLOSED; SLUICE_DEVICE_FAILED. */
sluice_status sluice_prepared_run(sluice_prepared* prepared);

/* The bytes of its inputs, its outputs and all values in between; weights are the network's. Since 1.4. */
sluice_status sluice_prepared_memory(const sluice_prepared* prepared, size_t* bytes);

/* Frees the object, with its memory. */
void sluice_prepared_destroy(sluice_prepared* prepared);

/* --- networks with memory ------------------------------------------------------------------------------------ */

/* An output that is the next step's input. Since 1.5. */
typedef struct sluice_state_pair {
    const char* output; /* its name */
    const char* input;  /* the input's name */
} sluice_state_pair;

/* Since 1.5. */
typedef struct sluice_session_options {
    size_t size;                      /* sizeof(sluice_session_options) */
    const sluice_state_pair* pairs;   /* which outputs are the next inputs; NULL: their names say it */
    size_t pair_count;                /* how many pairs there are */
    const sluice_input_shape* shapes; /* for lengths that neither the file nor the first step's inputs say */
    size_t shape_count;               /* how many shapes there are */
} sluice_session_options;

/* Keeps the state of one sequence: the outputs of a step that are inputs of the next one. It is zeros at first.
 * `options` may be NULL: the names of the file say which outputs these are (docs/sessions.md has the rule). The session
 * keeps its network. Since 1.5. Errors: SLUICE_INVALID_ARGUMENT for a name that the network does not have, and where
 * the names do not say one state; SLUICE_SHAPE_MISMATCH for a pair or a shape that does not fit. */
sluice_status sluice_session_create(const sluice_network* network, const sluice_session_options* options,
                                    sluice_session** session);

/* Fills `count`: how many inputs a step takes, those that are not state. Since 1.5. */
sluice_status sluice_session_input_count(const sluice_session* session, size_t* count);
/* Fills `input`: which of the network's inputs this one is. Since 1.5. Errors: SLUICE_INVALID_ARGUMENT for an index
 * that is not below the count. */
sluice_status sluice_session_input(const sluice_session* session, size_t index, size_t* input);
/* Fills `count`: how many inputs are state. Since 1.5. */
sluice_status sluice_session_state_count(const sluice_session* session, size_t* count);
/* Fills `pair`: the names belong to the session. Since 1.5. Errors: as of sluice_session_input. */
sluice_status sluice_session_pair(const sluice_session* session, size_t index, sluice_state_pair* pair);

/* Computes the outputs and the next state of these inputs, in host memory, and returns when they are there. After a
 * failure the state is what it was. Since 1.5. Errors: as of sluice_network_run; SLUICE_UNSUPPORTED for inputs in the
 * memory of a GPU; SLUICE_INVALID_ARGUMENT while another thread is in the session. */
sluice_status sluice_session_step(sluice_session* session, const sluice_tensor* inputs, size_t count);

/* Fills `output`: an output of the latest step, by the network's index, until the next call of this session. Since 1.5.
 * Errors: SLUICE_INVALID_ARGUMENT for an index that is not below the count of the network's outputs, and before the
 * first step; SLUICE_UNSUPPORTED for state on a GPU, which sluice_session_state brings. */
sluice_status sluice_session_output(sluice_session* session, size_t index, sluice_buffer* output);

/* A copy of the state, with the tensors in the order of the pairs. Since 1.5. Errors: SLUICE_INVALID_ARGUMENT before
 * the first step, where the file leaves lengths of the state open. */
sluice_status sluice_session_state(sluice_session* session, sluice_result** state);
/* Continues from these tensors in host memory, in the order of the pairs. After a failure the state is what it was.
 * Since 1.5. Errors: SLUICE_SHAPE_MISMATCH for another number of them, and for a type or a shape that is not the
 * file's. */
sluice_status sluice_session_set_state(sluice_session* session, const sluice_tensor* state, size_t count);
/* The state is zeros again. Since 1.5. */
sluice_status sluice_session_reset(sluice_session* session);

/* Frees the session, with its memory. */
void sluice_session_destroy(sluice_session* session);

/* --- networks that are written node by node ------------------------------------------------------------------ */

/* Writes a network with the operators of ONNX, and checks each node where it is written. Since 1.2. */
typedef struct sluice_builder sluice_builder;

/* `name` is for messages; NULL: "network". */
sluice_status sluice_builder_create(const char* name, sluice_builder** builder);
/* Frees the builder. Networks that were made from it stay. */
void sluice_builder_destroy(sluice_builder* builder);

/* The functions below number the builder's values 0, 1, 2, ... in the order in which they are made. After a failure the
 * builder is as before. */
#define SLUICE_NO_VALUE ((size_t)-1) /* an input that is left out */

/* An input of the network. A dimension of SLUICE_ANY_LENGTH has a name; those of one name have one length. */
sluice_status sluice_builder_input(sluice_builder* builder, const char* name, const sluice_dimension* dimensions,
                                   size_t rank, sluice_type type, size_t* value);

/* Numbers that the network contains: a copy of a tensor in host memory. */
sluice_status sluice_builder_constant(sluice_builder* builder, const sluice_tensor* numbers, size_t* value);

/* Which member of a sluice_attribute has its value. */
typedef int32_t sluice_attribute_kind;
enum { SLUICE_INTEGER = 1, SLUICE_NUMBER = 2, SLUICE_TEXT = 3, SLUICE_INTEGERS = 4, SLUICE_NUMBERS = 5 };

/* An attribute of a node. The kind says which member has it; the others are not read. */
typedef struct sluice_attribute {
    const char* name;           /* "axis" */
    sluice_attribute_kind kind; /* says which member has the value */
    int64_t integer;            /* of SLUICE_INTEGER */
    float number;               /* of SLUICE_NUMBER */
    const char* text;           /* of SLUICE_TEXT; ends with 0 */
    const int64_t* integers;    /* `count` of them */
    const float* numbers;       /* likewise */
    size_t count;               /* of the integers or numbers */
} sluice_attribute;

/* Adds a node: "Relu", "ai.onnx.ml.Scaler". Inputs, outputs and attributes are those of the ONNX standard, operator set
 * 28. `inputs` are `count` values, `outputs` room for `output_count`. Errors: SLUICE_UNSUPPORTED for an operator that
 * does not exist, with the nearest name; SLUICE_SHAPE_MISMATCH; SLUICE_INVALID_ARGUMENT. */
sluice_status sluice_builder_node(sluice_builder* builder, const char* op, const size_t* inputs, size_t count,
                                  const sluice_attribute* attributes, size_t attribute_count, size_t* outputs,
                                  size_t output_count);

/* What is known of a value: "f32 [rows, 10]"; "?" for a length that depends on others, and for what is known when the
 * network runs. The string is valid until the next call of this function for the builder. */
sluice_status sluice_builder_describe(sluice_builder* builder, size_t value, const char** text);

/* Names an output of the network. */
sluice_status sluice_builder_output(sluice_builder* builder, const char* name, size_t value);

/* The network as it is now, as sluice_network_load_memory makes it; the builder may go on. `options` may be NULL. */
sluice_status sluice_builder_make(sluice_builder* builder, sluice_runtime* runtime,
                                  const sluice_network_options* options, sluice_network** network);

/* --- profiles ------------------------------------------------------------------------------------------------ */

/* The time of each node of a network. Since 1.2. */
typedef struct sluice_profile sluice_profile;

/* Makes the network again, on a device of the same name that is traced, and runs it `runs` times on these inputs, in
 * host memory, after a few runs that are not measured. A network that was loaded from a path reads the file again.
 * Blocks. Errors: as of sluice_network_load and sluice_network_run; SLUICE_INVALID_ARGUMENT for 0 runs and for inputs
 * in SLUICE_DEVICE memory. */
sluice_status sluice_network_profile(const sluice_network* network, const sluice_tensor* inputs, size_t count,
                                     size_t runs, sluice_profile** profile);

/* The totals of a profile. */
typedef struct sluice_profile_info {
    size_t size;              /* sizeof(sluice_profile_info) */
    size_t rows;              /* how many there are */
    double microseconds;      /* of a run: the sum of all rows */
    double span_microseconds; /* of a run: from the first command's start to the last one's end */
    size_t on_host;           /* steps that are computed on the host, before the device's */
    size_t without_commands;  /* steps of the device that need none, such as a change of the shape */
} sluice_profile_info;

/* Fills `info`, whose `size` is set. */
sluice_status sluice_profile_total(const sluice_profile* profile, sluice_profile_info* info);

/* What the device does at once: a node, or several in one kernel. */
typedef struct sluice_profile_row_info {
    size_t size;           /* sizeof(sluice_profile_row_info) */
    const char* operators; /* "Conv + Relu"; of commands that belong to no node their kind: "(upload)" */
    const char* node;      /* their names: "conv1, relu1" */
    const char* commands;  /* "2 x gemm, bias" */
    double microseconds;   /* the mean of the runs, by the device's clock */
    double share;          /* of all rows, from 0 to 1 */
} sluice_profile_row_info;

/* Fills `info`, whose `size` is set; the strings belong to the profile. The longest row is the first. Errors:
 * SLUICE_INVALID_ARGUMENT for an index that is not below the count. */
sluice_status sluice_profile_row(const sluice_profile* profile, size_t index, sluice_profile_row_info* info);

/* Frees the profile, with the strings that it gave. */
void sluice_profile_destroy(sluice_profile* profile);

/* --- results ------------------------------------------------------------------------------------------------- */

/* How many outputs the result has. */
sluice_status sluice_result_count(const sluice_result* result, size_t* count);

/* Fills `output`; its shape is in host memory, its data where sluice_result_memory says. Both belong to the result, and
 * the data to no other one: it may be written. It begins at a multiple of 16 bytes. Errors: SLUICE_INVALID_ARGUMENT for
 * an index that is not below the count. */
sluice_status sluice_result_output(const sluice_result* result, size_t index, sluice_buffer* output);

/* Frees the result, with the outputs that it gave. */
void sluice_result_destroy(sluice_result* result);

#ifdef __cplusplus
}
#endif

#endif
