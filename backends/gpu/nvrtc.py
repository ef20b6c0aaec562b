"""The runtime compiler: CUDA C++ text to machine code. Its flags are here and nowhere else."""

from __future__ import annotations

from fuser.backend import CompileError
from fuser.backends.gpu.variants import NARROW, Variant
from fuser.base import disk_cache

#: What results rest on. CuPy adds flush-to-zero to whatever it compiles itself, so its own
#: RawKernel and RawModule are not used; NVRTC contracts a*b+c to one rounding by default.
FLAGS = (
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
)


def flags(variant: Variant | None = None) -> tuple[str, ...]:
    """Flags of a compilation, but for the architecture; nvcc takes the same.

    Args:
        variant: what to compile; None for all of them.
    """
    return FLAGS if variant is None else (*FLAGS, *variant.defines)


def architecture(capability: str, supported: list[int]) -> str:
    """The newest architecture that a device runs and the compiler knows.

    Args:
        capability: the device's, such as "90".
        supported: what the compiler supports.

    Returns:
        `sm_90` for machine code; `compute_90` for PTX, which the driver compiles, where the
        device is newer than the compiler.
    """
    if int(capability) in supported:
        return f"sm_{capability}"
    older = [known for known in supported if known < int(capability)]
    if not older:
        raise CompileError(
            "compile-failed",
            f"NVRTC supports compute capability {min(supported)} and later, the device has "
            f"{capability}",
        )
    return f"compute_{max(older)}"


def compile_text(text: str, name: str, capability: str, variant: Variant) -> bytes:
    """Machine code for a device, or PTX where the device is newer than the compiler.

    It is kept between processes, by the text, the compiler's version, the architecture and flags.

    Args:
        text: CUDA C++.
        name: of the unit, for messages.
        capability: the device's, such as "90".
        variant: what to compile.

    Raises:
        CompileError: NVRTC refused, with its log.
    """
    from cupy.cuda import nvrtc

    target = architecture(capability, list(nvrtc.getSupportedArchs()))
    known = repr(("nvrtc", nvrtc.getVersion(), target, flags(variant)))
    key = disk_cache.key_of(text, known.encode())
    found = disk_cache.read(key)
    if found is None:
        found = _compile(text, name, target, variant)
        disk_cache.write(key, found)
    return found


def ptx(text: str, name: str, capability: str, variant: Variant = NARROW) -> str:
    """The assembly text of NVIDIA's virtual machine.

    Raises:
        CompileError: NVRTC refused, with its log.
    """
    from cupy.cuda import nvrtc

    target = architecture(capability, list(nvrtc.getSupportedArchs()))
    virtual = target.replace("sm_", "compute_")
    return _compile(text, name, virtual, variant).decode().rstrip("\0")


def _compile(text: str, name: str, target: str, variant: Variant) -> bytes:
    """Run NVRTC once."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, f"{name}.cu", (), ())
    try:
        options = (*flags(variant), f"--gpu-architecture={target}")
        nvrtc.compileProgram(program, options)
        code = nvrtc.getCUBIN(program) if target.startswith("sm_") else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program).strip()
        raise CompileError("compile-failed", f"{error}: {log}") from None
    finally:
        nvrtc.destroyProgram(program)
    return code if isinstance(code, bytes) else code.encode()
