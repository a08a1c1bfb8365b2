# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
"""SparseConvTensor: features of voxels, under spconv's name and with its attributes."""
import torch
from torch.compiler import is_compiling

from .geometry import CoordinateSet, tracked

# Devices that this build has kernels for.
DEVICES = [name for name in ("cpu", "cuda") if
           torch._C._dispatch_has_kernel_for_dispatch_key("spira::voxelize", name.upper())]


# What layers note under an indice_key.
#
# kind          "submanifold", "convolution" or "pool"
# source, outputs   the coordinate sets
# map           the kernel map between them
# ksize, stride, padding, dilation   of the layer
# A copy of a note would have sets of its own, which are those of no tensor: it is refused.
class IndiceData:
    def __init__(self, kind, source, outputs, kernel_map, ksize, stride, padding, dilation):
        self.kind, self.source, self.outputs, self.map = kind, source, outputs, kernel_map
        self.ksize, self.stride = list(ksize), list(stride)
        self.padding, self.dilation = list(padding), list(dilation)
        self.kernel = tuple(ksize), tuple(dilation)

    is_subm = property(lambda self: self.kind == "submanifold")
    indices = property(lambda self: self.source.indices)
    out_indices = property(lambda self: self.outputs.indices)
    spatial_shape = property(lambda self: list(self.source.spatial_shape))
    out_spatial_shape = property(lambda self: list(self.outputs.spatial_shape))


is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)


def refuse_proxy(value):
    """Raises what torch.fx and torch.export are answered: sets and maps depend on the voxels."""
    if torch.compiler.is_dynamo_compiling(): # which says that it is exporting, too
        return
    tracing = "torch.fx" if isinstance(value, torch.fx.Proxy) else \
        "torch.export" if is_exporting() else None
    if tracing:
        raise NotImplementedError(
            f"{tracing} cannot record sparse layers, whose kernel maps depend on the voxels: use "
            "torch.compile for speed, a leaf module for torch.fx, and spira.pytorch.export to "
            "deploy in C++")


def check_arguments(features, indices, spatial_shape, batch_size, count):
    """Raises by name what is wrong with the arguments of a SparseConvTensor."""
    for name, value in (("features", features), ("indices", indices)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name}: a torch.Tensor is needed, not {type(value).__name__}")
        if value.dim() != 2:
            raise ValueError(f"{name}: 2 dimensions are needed, not shape {list(value.shape)}")
    if features.device.type not in DEVICES:
        raise ValueError(f"features: on {features.device}; this build of spira has kernels for "
                         f"{' and '.join(DEVICES)}")
    if not features.is_floating_point():
        raise TypeError(f"features: floating point is needed, not {features.dtype}")
    if indices.dtype != torch.int32:
        raise TypeError(f"indices: torch.int32 is needed, not {indices.dtype}; use .int()")
    if indices.device != features.device:
        raise ValueError(f"indices: on {indices.device}, but features are on {features.device}")
    axes = len(spatial_shape)
    if not 1 <= axes <= 3 or any(n < 1 for n in spatial_shape):
        raise ValueError(f"spatial_shape: 1 to 3 positive sizes are needed, not {spatial_shape}")
    if indices.shape[1] != axes + 1:
        raise ValueError(f"indices: {axes + 1} columns (batch and {axes} axes of spatial_shape) "
                         f"are needed, not {indices.shape[1]}")
    if batch_size < 1:
        raise ValueError(f"batch_size: at least 1, not {batch_size}")
    if count is not None:
        if not isinstance(count, torch.Tensor) or count.dtype != torch.int32 or count.numel() != 1:
            raise TypeError("count: a torch.int32 tensor of one element is needed")
        if count.device != features.device:
            raise ValueError(f"count: on {count.device}, but features are on {features.device}")


def version_of(features):
    """How often features were changed in place; None where nobody counts."""
    return None if is_compiling() or features.is_inference() else features._version


def with_its_gradient(call, features):
    """call(features), which is kept: it has the gradient that features have, whoever asks first."""
    if is_compiling() or features.is_inference() or not (
            torch.is_inference_mode_enabled() or
            (features.requires_grad and not torch.is_grad_enabled())):
        return call(features)
    with torch.inference_mode(False), torch.enable_grad():
        return call(features)


def check_rows(features, indices):
    if features.shape[0] != indices.shape[0]:
        raise ValueError(f"features: {features.shape[0]} rows, but indices have "
                         f"{indices.shape[0]}")


class SparseConvTensor:
    """Features of voxels.

    features       [voxels, channels]
    indices        int32 [voxels, 1 + axes]: the batch, then the axes of spatial_shape. Any order,
                   no two alike
    spatial_shape  the number of places along each axis
    batch_size     larger than any batch of `indices`
    indice_dict    of another tensor: what its layers noted under their keys

    Capacity mode (no read-back; see README.md):
    ordered        the first *count rows are in the order of sort_rows(): saves permutations. A
                   promise: check() says whether it is kept. Without count it is found out
    count          int32 [1], on the device: the first *count rows are voxels, the others padding
    capacities     rows of the sets that strided layers make: of capacities(), or a dictionary of
                   indice_keys. Sets that it lacks get the largest size that they can have

    Accepted and ignored: grid, voxel_num, benchmark, permanent_thrust_allocator, enable_timer and
    force_algo, which choose among spconv's own ways.

    A copy (pickle, torch.save, copy.deepcopy) has the features, the indices and the arguments, but
    not what layers noted under their keys.
    """
    # Attributes that spconv's code sets and reads: they have no effect.
    _UNUSED = dict(grid=None, voxel_num=None, benchmark=False, benchmark_record=None,
                   thrust_allocator=None, force_algo=None, int8_scale=None, _timer=None)

    def __init__(self, features, indices, spatial_shape, batch_size, grid=None, voxel_num=None,
                 indice_dict=None, benchmark=False, permanent_thrust_allocator=False,
                 enable_timer=False, force_algo=None, *, count=None, capacities=None,
                 ordered=False):
        refuse_proxy(features)
        spatial_shape = [int(n) for n in spatial_shape]
        batch_size = int(batch_size)
        check_arguments(features, indices, spatial_shape, batch_size, count)
        check_rows(features, indices)
        self._features, self._ordered, self._version = features, None, None
        self._indices, self._set = tracked(indices), None
        self.spatial_shape, self.batch_size = spatial_shape, batch_size
        self.indice_dict = {} if indice_dict is None else indice_dict
        for name in self._UNUSED:
            setattr(self, name, self._UNUSED[name])
        self.grid, self.voxel_num, self.benchmark = grid, voxel_num, benchmark
        self.force_algo, self.benchmark_record = force_algo, {}
        self._count, self._capacities, self._is_ordered = count, capacities, ordered
        if count is not None:
            self._features = with_its_gradient(self.coordinates().clear_padding, features)

    # ---- rows --------------------------------------------------------------------------------

    @property
    def features(self):
        """[voxels, channels], in the order of `indices`."""
        if self._features is None:
            self._features = with_its_gradient(self._set.to_rows, self._ordered)
            self._version = version_of(self._features)
        if self._count is not None:
            self._features._spira_count = self._count # for BatchNorm1d
        return self._features

    @features.setter
    def features(self, value):
        raise ValueError("features cannot be set; x = x.replace_feature(features) returns a new "
                         "tensor")

    @property
    def indices(self):
        """int32 [voxels, 1 + axes]."""
        if self._indices is None:
            self._indices = self._set.indices
        return self._indices

    @indices.setter
    def indices(self, value):
        self._features, self._ordered = self.features, None
        self._indices, self._set = tracked(value), None

    @property
    def count(self):
        """In capacity mode the number of voxels, int32 [1] on the device; otherwise None."""
        return self._count

    @property
    def spatial_size(self):
        size = 1
        for n in self.spatial_shape:
            size *= n
        return size

    @property
    def is_quantized(self):
        return False

    def replace_feature(self, feature):
        """The same voxels with other features, in the order of `indices`."""
        y = self._like()
        y._features = feature
        y._indices, y._set = self._indices, self._set
        return y

    def replace_in_place(self, call):
        """Replaces the features by call(features), in this tensor."""
        if self._ordered is not None and not self._was_changed():
            self._features, self._ordered = None, call(self._ordered)
        else:
            self._features, self._ordered, self._version = call(self.features), None, None

    def select_by_index(self, valid_indices):
        """Some of the voxels, by their row."""
        if self._count is not None:
            raise ValueError("select_by_index: not in capacity mode, where the number of rows is "
                             "known on the device only")
        y = self._like()
        y._features, y._indices = self.features[valid_indices], self.indices[valid_indices]
        y.indice_dict = {}
        return y

    def shadow_copy(self):
        """A tensor of its own with the same features, voxels and notes."""
        y = self._like()
        y._features, y._ordered, y._version = self._features, self._ordered, self._version
        y._indices, y._set = self._indices, self._set
        return y

    def __reduce__(self):
        options = dict(count=self._count, capacities=self._capacities, ordered=self._is_ordered)
        return restored, (type(self), self.features, self.indices, self.spatial_shape,
                          self.batch_size, options, {name: getattr(self, name)
                                                     for name in self._UNUSED})

    def __add__(self, other):
        """Features plus those of the same voxels, or plus a tensor or a number."""
        if isinstance(other, SparseConvTensor):
            if other.coordinates() is not self.coordinates():
                raise ValueError(f"indices: tensors of different voxels cannot be added: {self}, "
                                 f"{other}; functional.sparse_add adds those")
            if self.has_ordered() and other.has_ordered():
                return self.with_ordered(self._ordered + other._ordered, self._set)
            other = other.features
        return self.replace_feature(self.features + other)

    __iadd__ = __radd__ = __add__

    def minus(self):
        """The negative features."""
        return self.replace_feature(-self.features)

    def find_indice_pair(self, key):
        """What a layer noted under its indice_key, or None."""
        return None if key is None else self.indice_dict.get(key)

    def dense(self, channels_first=True):
        """[batch, channels, *spatial_shape], or with the channels last; zero without a voxel."""
        return self.coordinates().dense(self.ordered(), channels_first)

    @classmethod
    def from_dense(cls, x):
        """The places of a dense [batch, *spatial_shape, channels] that are not zero."""
        if x.dim() < 3:
            raise ValueError(f"x: [batch, *spatial_shape, channels] is needed, not "
                             f"{list(x.shape)}")
        places = (x != 0).any(-1).nonzero()
        return cls(x[tuple(places.T)], places.int(), list(x.shape[1:-1]), x.shape[0])

    def check(self):
        """Raises what the device noted when the layers read the indices: capacities that were
        passed, wrong or repeated voxels. Reads back; only needed in capacity mode."""
        (self._set or self.coordinates()).check()

    def __repr__(self):
        return (f"SparseConvTensor(rows={self._rows()}, spatial_shape={self.spatial_shape}, "
                f"batch_size={self.batch_size})")

    # ---- for the layers ----------------------------------------------------------------------

    def coordinates(self):
        """The coordinate set. Made anew where `indices` was changed, by assignment or in place."""
        known = self._set
        if known is None or (self._indices is not None and not known.has(self._indices)):
            if known is not None: # in the order of the rows, which stays
                self._features, self._ordered = self.features, None
            check_rows(self._features, self._indices)
            known = CoordinateSet.of(self._indices, self.spatial_shape, self.batch_size,
                                     self._count, self._capacities, self._is_ordered)
            self._set = known
        return known

    def ordered(self, coordinates=None):
        """The features in the order of the coordinate set. coordinates: what coordinates() has
        returned, if it has been called."""
        if coordinates is None:
            coordinates = self.coordinates()
        if self._ordered is None or self._was_changed():
            if self._features.shape[0] != coordinates.rows:
                raise ValueError(f"features: {self._features.shape[0]} rows, but indices have "
                                 f"{coordinates.rows}")
            if self._features.device != coordinates.device:
                raise ValueError(f"features: on {self._features.device}, but indices are on "
                                 f"{coordinates.device}")
            self._ordered = with_its_gradient(coordinates.to_order, self._features)
            self._version = version_of(self._features)
        return self._ordered

    def _was_changed(self):
        """Whether the features may have been changed in place since they were ordered."""
        features = self._features
        if features is None or features is self._ordered:
            return False
        version = version_of(features)
        return version is None or version != self._version or \
            features.requires_grad != self._ordered.requires_grad

    def with_ordered(self, features, coordinates, indice_dict=None):
        """A layer's result: features in the order of the set."""
        y = self._like(indice_dict)
        y._ordered, y._set = features, coordinates
        y.spatial_shape, y._count = list(coordinates.spatial_shape), coordinates.count
        if coordinates is self._set:
            y._indices = self._indices
        return y

    def has_ordered(self):
        return self._features is None

    def _rows(self):
        return (self._features if self._features is not None else self._ordered).shape[0]

    def _like(self, indice_dict=None):
        y = SparseConvTensor.__new__(type(self))
        y._features = y._ordered = y._version = y._indices = y._set = None
        y.spatial_shape, y.batch_size = self.spatial_shape, self.batch_size
        y.indice_dict = self.indice_dict if indice_dict is None else indice_dict
        # Those of _UNUSED, one by one: a loop would be a third of this function's time.
        y.grid, y.voxel_num, y.benchmark = self.grid, self.voxel_num, self.benchmark
        y.benchmark_record, y.thrust_allocator = self.benchmark_record, self.thrust_allocator
        y.force_algo, y.int8_scale, y._timer = self.force_algo, self.int8_scale, self._timer
        y._is_ordered, y._count, y._capacities = self._is_ordered, self._count, self._capacities
        return y


def restored(kind, features, indices, spatial_shape, batch_size, options, unused):
    """A copy of a SparseConvTensor: what pickle calls."""
    x = kind(features, indices, spatial_shape, batch_size, **options)
    x.__dict__.update(unused)
    return x
