# SPDX-License-Identifier: Apache-2.0
"""The exceptions: each has the text of the library's error, and derives from the built-in one that fits best."""


class Error(Exception):
    """What the library refuses, or what fails while a network runs."""


class InvalidArgumentError(Error, ValueError):
    """A call was made with arguments that it documents as wrong."""


class ShapeError(Error, ValueError):
    """The number, types or shapes of inputs do not fit the network."""


class DeviceNotFoundError(Error, LookupError):
    """The requested device does not exist."""


class OutOfMemoryError(Error, MemoryError):
    """A device or the host has not enough memory left."""


class UnsupportedError(Error, NotImplementedError):
    """This build, device or version cannot do what was requested."""


class DeviceError(Error, RuntimeError):
    """The device reported a fault and accepts no more work, or a library on it failed."""


class RuntimeClosedError(Error, RuntimeError):
    """The runtime that owned the device has been destroyed."""


class TimedOutError(Error, TimeoutError):
    """The run is not complete after the given time."""


class CanceledError(Error, RuntimeError):
    """A stop was requested, and the work is abandoned."""


class GraphRefusedError(Error, RuntimeError):
    """Something that cannot be done inside a graph, or to one."""


class FileError(Error, ValueError):
    """A file's contents were refused."""


class FileAccessError(Error, OSError):
    """The operating system refused to read a file."""


class MissingFileError(FileAccessError, FileNotFoundError):
    """There is no file of this name."""


class IndexInDataError(Error, IndexError):
    """An index in the data points to an element that does not exist."""


class InternalError(Error, RuntimeError):
    """An exception that is none of the library's."""


# By the numbers of sluice_status in sluice/c/sluice.h.
BY_STATUS = (Error, InvalidArgumentError, ShapeError, DeviceNotFoundError, OutOfMemoryError, UnsupportedError,
             DeviceError, RuntimeClosedError, TimedOutError, CanceledError, GraphRefusedError, FileError,
             FileAccessError, IndexInDataError, InternalError)

for _each in (*BY_STATUS, MissingFileError):
    _each.__module__ = "sluice"
