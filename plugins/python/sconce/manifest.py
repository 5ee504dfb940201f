"""Types of a manifest's keys, for editors and type checkers: `manifest: Manifest = {"model": …}`.

Made by `.ci/manifest-types` of the schema that `sconce schema` prints; not to be changed by hand.
"""

from __future__ import annotations

from typing import Any, List, Literal, TypedDict, Union


class Manifest(TypedDict, total=False):
    """A run manifest: what to train, how, and with which hooks."""
    adapt: Union[Adapt1Lora, None]
    """What is trained in the place of the model, which is held with its initial weights. Default: the model
    itself."""
    data: Union[DataIdx, DataCifar, DataImageFolder, DataSyntheticDigits, DataCsv, DataNpy, DataSafetensors, DataTwoMoons, DataRegression, DataText, DataTokens, DataJsonl, DataParquet, DataGrammar]
    """The data. Optional for a program with its own task."""
    device: str
    """The device that computes: `cpu`, the default; `cuda`, the first NVIDIA GPU (with several processes on a
    machine, each takes its own); `cuda:N`, the one with this number; `auto`, a GPU if there is one that can be
    used."""
    distributed: Distributed
    """How processes train together, where a launcher has started several."""
    hooks: List[Union[str, HooksItem2]]
    """The hooks. At each mount point they run by priority; those of equal priority in this order."""
    limits: Limits
    """Time limits for plugins."""
    loss: Union[Literal['cross-entropy', 'binary-cross-entropy', 'mse', 'l1', 'huber', 'given'], Loss12CrossEntropy, Loss12BinaryCrossEntropy, Loss12Mse, Loss12L1, Loss12Huber, Loss12Given, None]
    """The loss. Default: cross entropy for classes, mean squared error for numeric targets."""
    metrics: Union[List[Union[Literal['accuracy', 'top-k', 'precision', 'recall', 'f1', 'confusion-matrix', 'perplexity', 'bits-per-byte', 'mae', 'rmse', 'r2', 'binary-accuracy'], MetricsItem2Accuracy, MetricsItem2TopK, MetricsItem2Precision, MetricsItem2Recall, MetricsItem2F1, MetricsItem2ConfusionMatrix, MetricsItem2Perplexity, MetricsItem2BitsPerByte, MetricsItem2Mae, MetricsItem2Rmse, MetricsItem2R2, MetricsItem2BinaryAccuracy]], None]
    """The metrics of every phase. Default: accuracy for classes, also perplexity for text, and mean absolute and
    root mean squared errors for numeric targets."""
    model: Union[ModelMlp, ModelConvnet, ModelResnet, ModelVit, ModelGpt, ModelTransformers, ModelSequential]
    """The model. Optional for a program with its own task."""
    name: str
    """Name of the run. Default: the file's name without its extension."""
    optimizer: Union[OptimizerSgd, OptimizerAdam, OptimizerAdamw, OptimizerRmsprop, OptimizerLion]
    """The optimizer."""
    output: str
    """Output directory of the run. Default: `runs/` and the run's name."""
    plugins: List[str]
    """Directories with plugins, in search order; the directories of installed plugins come after them."""
    precision: Literal['f32', 'tf32', 'bf16']
    """Precision of products and activations; parameters and the optimizer are always in `f32`."""
    reload_at: Literal['epoch', 'iteration']
    """Where in the training hooks' libraries are loaded again, when that is asked for or their files have
    changed."""
    seed: int
    """Seed of everything random."""
    threads: Union[int, None]
    """Number of compute threads. Default: as many as the processors that the process may use. No more threads
    than that are started, but the results are bit-identical to those of the given number."""
    train: Train
    """How long to train, and in which steps."""
    weights: Union[Weights, None]
    """The initial weights. Default: drawn from the seed."""


class Adapt1Lora(TypedDict, total=False):
    """Adapters of low rank beside linear layers (Hu et al., 2021), in PEFT's files."""
    alpha: float
    """What the adapters add is multiplied by `alpha` / `rank`."""
    dora: bool
    """Whether the lengths of the adapted weights' rows are trained by themselves, and the adapters change their
    directions (`DoRA`, Liu et al., 2024)."""
    dropout: float
    """Fraction of an adapter's inputs that is dropped in training, from 0 to below 1."""
    file: Union[str, None]
    """A directory of PEFT's with the adapters to start from. Default: new ones, which change nothing at first."""
    kind: Literal['lora']
    modules: List[str]
    """Patterns of the linear layers and attention's projections that get adapters: names of weights without
    `.weight`. Default: those that PEFT takes for the model's family."""
    rank: int
    """Number of columns between an adapter's two matrices."""
    rslora: bool
    """Whether what the adapters add is multiplied by `alpha` / √`rank` instead (Kalajdzievski, 2023)."""
    train: List[str]
    """Patterns of parameters that are trained beside the adapters. A new head is, in any case."""


class DataIdx(TypedDict, total=False):
    """Images and labels in IDX files, the format of MNIST; plain or gzipped."""
    augment: DataIdxAugment
    """Random augmentation of training images."""
    classes: List[str]
    """Names of the classes; their number limits the labels. Default: the digits 0 to 9."""
    images: str
    """Path of the file with the images: bytes of rank 3 (count, height, width) or 4 (count, channels, height,
    width)."""
    kind: Literal['idx']
    labels: Union[str, None]
    """Path of the file with their labels: bytes of rank 1. Without targets there needs to be none."""
    memory: Literal['auto', 'whole', 'on-demand']
    """Whether images are read before training or when a batch needs them."""
    normalise: Union[Literal['computed', 'none'], DataIdxNormalise2]
    """Normalisation of the pixels: `'computed'` from the training images, `'none'`, or `{'mean': […],
    'deviation': […]}`."""
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    stratified: bool
    """Whether a `count` or `fraction` keeps the class proportions of the training data."""
    targets: Literal['classes', 'none']
    """Whether images have targets. With `none` there are none, and only a loss that hooks give will do."""
    test: Union[DataIdxTest, None]
    """Test data: a part of the training data, or separate data."""
    val: Union[DataIdxVal, None]
    """Validation data: a part of the training data, or separate data."""
    views: List[DataIdxViewsItem]
    """Views of each training image, in place of augmentation: rows of a batch of their own."""


class DataIdxAugment(TypedDict, total=False):
    """Random augmentation of training images."""
    colour: Union[DataIdxAugmentColour, None]
    """Random brightness, contrast, saturation and hue."""
    crop: Union[DataIdxAugmentCrop, None]
    """Random shift: the image gets a black border and is cropped to its size at a random position."""
    cutmix: Union[DataIdxAugmentCutmix, None]
    """A rectangle of each image of a batch is taken from another of it, whose target counts by the area:
    `CutMix`. With `mixup` too, each batch has one of the two."""
    erase: Union[DataIdxAugmentErase, None]
    """A random rectangle is made black."""
    flip: Union[Literal['horizontal', 'vertical'], None]
    """Random flip, with probability ½."""
    mixup: Union[DataIdxAugmentMixup, None]
    """Each image of a batch is averaged with another of it, and so are their targets in the loss: mixup."""
    rand_augment: Union[DataIdxAugmentRandAugment, None]
    """Randomly chosen operations of a common strength: `RandAugment`."""
    rotate: Union[DataIdxAugmentRotate, None]
    """Random rotation about the centre."""


class DataIdxAugmentColour(TypedDict, total=False):
    """Random brightness, contrast, saturation and hue."""
    brightness: float
    """Maximum change of the brightness: a factor from 1 − `brightness` to 1 + `brightness`."""
    contrast: float
    """Maximum change of the contrast: the distance from the image's mean brightness is multiplied by a factor
    from 1 − `contrast` to 1 + `contrast`."""
    hue: float
    """Maximum shift of the hue in both directions, as a fraction of the colour circle. Needs three channels."""
    probability: float
    """Probability with which an image is changed."""
    saturation: float
    """Maximum change of the saturation: the distance from a pixel's brightness is multiplied by a factor from 1 −
    `saturation` to 1 + `saturation`. Needs three channels."""


class DataIdxAugmentCrop(TypedDict, total=False):
    """Random shift: the image gets a black border and is cropped to its size at a random position."""
    padding: int
    """Width of the border on each side in pixels, the maximum shift. Must be below the images' height and
    width."""


class DataIdxAugmentCutmix(TypedDict, total=False):
    """A rectangle of each image of a batch is taken from another of it, whose target counts by the area:
    `CutMix`. With `mixup` too, each batch has one of the two."""
    alpha: float
    """Both parameters of the beta distribution that the rectangle's area is drawn from, as a fraction of the
    image's: 1 for uniform areas."""


class DataIdxAugmentErase(TypedDict, total=False):
    """A random rectangle is made black."""
    area: List[float]
    """Smallest and largest area, as fractions of the image's."""
    aspect: List[float]
    """Smallest and largest ratio of height to width, above 0."""
    probability: float
    """Probability with which an image is changed."""


class DataIdxAugmentMixup(TypedDict, total=False):
    """Each image of a batch is averaged with another of it, and so are their targets in the loss: mixup."""
    alpha: float
    """Both parameters of the beta distribution that the weight is drawn from: 1 for uniform weights, less for
    weights nearer to 0 and 1."""


class DataIdxAugmentRandAugment(TypedDict, total=False):
    """Randomly chosen operations of a common strength: `RandAugment`."""
    magnitude: int
    """Strength of the operations; 30 is the strongest."""
    operations: int
    """Number of operations applied to each image."""


class DataIdxAugmentRotate(TypedDict, total=False):
    """Random rotation about the centre."""
    degrees: float
    """Maximum angle in degrees, in both directions."""


class DataIdxNormalise2(TypedDict, total=False):
    """Known statistics."""
    deviation: List[float]
    """Standard deviation per channel, of pixels from 0 to 1; above 0."""
    mean: List[float]
    """Mean per channel, of pixels from 0 to 1."""


class DataIdxTest(TypedDict, total=False):
    """Test data: a part of the training data, or separate data."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""
    images: Union[str, None]
    """Path of a separate file with images."""
    labels: Union[str, None]
    """Path of the file with their labels."""


class DataIdxVal(TypedDict, total=False):
    """Validation data: a part of the training data, or separate data."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""
    images: Union[str, None]
    """Path of a separate file with images."""
    labels: Union[str, None]
    """Path of the file with their labels."""


class DataIdxViewsItem(TypedDict, total=False):
    """Some views of each training sample: images that are drawn from it at random in the same way."""
    blur: Union[DataIdxViewsItemBlur, None]
    """Gaussian blur."""
    colour: Union[DataIdxAugmentColour, None]
    """Random brightness, contrast, saturation and hue."""
    count: int
    """Number of such views."""
    crop: Union[DataIdxViewsItemCrop, None]
    """A random rectangle of the image, resized to the view's size."""
    flip: Union[Literal['horizontal', 'vertical'], None]
    """Random flip."""
    flip_probability: float
    """Probability of the flip."""
    grey: Union[DataIdxViewsItemGrey, None]
    """All channels become the brightness. Needs three channels."""
    size: Union[List[int], None]
    """Height and width in pixels. Default: those of the images."""
    solarise: Union[DataIdxViewsItemSolarise, None]
    """Bright pixels are inverted."""


class DataIdxViewsItemBlur(TypedDict, total=False):
    """Gaussian blur."""
    probability: float
    """Probability with which a view is blurred."""
    sigma: List[float]
    """Smallest and largest standard deviation in pixels."""


class DataIdxViewsItemCrop(TypedDict, total=False):
    """A random rectangle of the image, resized to the view's size."""
    aspect: List[float]
    """Smallest and largest ratio of width to height."""
    scale: List[float]
    """Smallest and largest area, as fractions of the image's, above 0."""


class DataIdxViewsItemGrey(TypedDict, total=False):
    """All channels become the brightness. Needs three channels."""
    probability: float
    """Probability with which a view is grey."""


class DataIdxViewsItemSolarise(TypedDict, total=False):
    """Bright pixels are inverted."""
    probability: float
    """Probability with which a view is solarised."""
    threshold: float
    """Smallest pixel that is inverted, from 0 to 255."""


class DataCifar(TypedDict, total=False):
    """CIFAR-10 or CIFAR-100 in the binary version."""
    augment: DataIdxAugment
    """Random augmentation of training images."""
    directory: str
    """Directory of the unpacked archive, with `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or
    with `train.bin` and `test.bin`. Without `test`, the test set is the test data."""
    kind: Literal['cifar']
    labels: Union[Literal['fine', 'coarse'], None]
    """Labels of CIFAR-100 to learn: its 100 classes (the default) or their 20 groups."""
    normalise: Union[Literal['computed', 'none'], DataIdxNormalise2]
    """Normalisation of the pixels: `'computed'` from the training images, `'none'`, or `{'mean': […],
    'deviation': […]}`."""
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    stratified: bool
    """Whether a `count` or `fraction` keeps the class proportions of the training data."""
    targets: Literal['classes', 'none']
    """Whether images have targets. With `none` there are none, and only a loss that hooks give will do."""
    test: Union[DataCifarTest, None]
    """Test data: a part of the training data, or separate data."""
    val: Union[DataCifarVal, None]
    """Validation data: a part of the training data, or separate data."""
    version: Literal[10, 100]
    """Version of CIFAR, 10 or 100."""
    views: List[DataIdxViewsItem]
    """Views of each training image, in place of augmentation: rows of a batch of their own."""


class DataCifarTest(TypedDict, total=False):
    """Test data: a part of the training data, or separate data."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    file: Union[str, None]
    """Path of a separate file (or folder, if the training data is one)."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""


class DataCifarVal(TypedDict, total=False):
    """Validation data: a part of the training data, or separate data."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    file: Union[str, None]
    """Path of a separate file (or folder, if the training data is one)."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""


class DataImageFolder(TypedDict, total=False):
    """Image files in one directory per class."""
    augment: DataIdxAugment
    """Random augmentation of training images."""
    directory: str
    """Directory with a subdirectory per class; their names are the class names, in sorted order. Separate
    directories for `val` and `test` have the same ones."""
    kind: Literal['image-folder']
    memory: Literal['auto', 'whole', 'on-demand']
    """Whether images are decoded once, before training, or whenever a batch needs them."""
    mode: Literal['grey', 'rgb']
    """Whether images have one channel or three."""
    normalise: Union[Literal['computed', 'none'], DataIdxNormalise2]
    """Normalisation of the pixels: `'computed'` from the training images, `'none'`, or `{'mean': […],
    'deviation': […]}`."""
    resize: Literal['stretch', 'cover', 'contain']
    """How an image of another shape becomes one of `size`."""
    size: Union[List[int], None]
    """Height and width in pixels to which images are resized. Default: all must have one size."""
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    stratified: bool
    """Whether a `count` or `fraction` keeps the class proportions of the training data."""
    targets: Literal['classes', 'none']
    """Whether images have targets. With `none` there are none, and only a loss that hooks give will do."""
    test: Union[DataCifarTest, None]
    """Test data: a part of the training data, or separate data."""
    val: Union[DataCifarVal, None]
    """Validation data: a part of the training data, or separate data."""
    views: List[DataIdxViewsItem]
    """Views of each training image, in place of augmentation: rows of a batch of their own."""


class DataSyntheticDigits(TypedDict, total=False):
    """Digits from 0 to 9, drawn and distorted from the seed; nothing to download."""
    distortion: float
    """Strength of rotation, shear, stretching, shift and bending: 0 for none, 1 as the default, at most 2."""
    kind: Literal['synthetic-digits']
    noise: float
    """Amplitude of the noise on each pixel, from 0 to 1 of full brightness."""
    size: int
    """Width and height in pixels."""
    targets: Literal['classes', 'none']
    """Whether images have targets. With `none` there are none, and only a loss that hooks give will do."""
    test: int
    """Number of test samples; 0 for no test."""
    train: int
    """Number of training samples."""
    val: int
    """Number of validation samples; 0 for no validation."""
    views: List[DataIdxViewsItem]
    """Views of each training sample: rows of a batch of their own."""


class DataCsv(TypedDict, total=False):
    """A CSV table: one line per sample, with numeric or categorical columns."""
    categorical: List[str]
    """Columns to treat as categorical, whatever their contents look like."""
    columns: Union[List[str], None]
    """Columns to use as inputs, in this order. Default: all except the target."""
    date_order: Union[Literal['day-first', 'month-first'], None]
    """Order of day and month in dates such as `3/4/2024`. Default: the one in which all dates of the column
    exist."""
    dates: List[str]
    """Columns with dates or times, which become several inputs: the days since 1970, the place in the year as
    sine and cosine, the day of the week, and the time of day as sine and cosine if there are times."""
    delimiter: str
    """Field delimiter: one ASCII character."""
    embed: Union[bool, List[str]]
    """Categorical columns that become one input each, the category's number, for the vectors that a layer `embed-
    categories` learns; `true` for all. Default: an input for each category."""
    file: str
    """Path of the file, plain or gzipped."""
    group: Union[str, None]
    """Column whose rows of equal text are all in one part, such as the patient they come from. It isn't an
    input."""
    header: bool
    """Whether the first line names the columns; without it they are `column1`, `column2`, …."""
    ignore: List[str]
    """Columns not to use as inputs."""
    kind: Literal['csv']
    min_count: Union[int, None]
    """With `on_unknown` `own`: categories of fewer training rows than this are unknown, so that the model learns
    an input for unknown ones. Default: 2."""
    missing: List[str]
    """Texts that mark a missing value. Spaces around a field are ignored."""
    numeric: List[str]
    """Columns to treat as numeric, whatever their contents look like."""
    on_missing: Literal['mean', 'most-frequent', 'drop', 'error']
    """Handling of missing inputs."""
    on_missing_target: Literal['drop', 'error']
    """Handling of rows whose target is missing."""
    on_unknown: Union[Literal['error', 'zeros', 'own'], None]
    """Handling of categories that the training rows don't have. Default: `zeros` in validation and test, `error`
    in predictions."""
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    standardise: bool
    """Whether to standardise numbers to mean 0 and standard deviation 1, from the training rows only."""
    stratified: bool
    """Whether a `count` or `fraction` keeps the class proportions of the training data."""
    target: Union[str, List[str]]
    """Column to predict, or several numeric ones; `[]` for none, where only a loss that hooks give will do."""
    target_kind: Union[Literal['classes', 'numbers'], None]
    """Whether targets are classes or numbers. Default: numbers if the column has only numbers."""
    target_scaling: Union[Literal['standard', 'log', 'log1p'], None]
    """Scaling of numeric targets for the loss. Metrics, predictions, and what hooks see stay in the table's own
    units. Default: none."""
    test: Union[DataCifarTest, None]
    """Test data: a part of the training data, or separate data."""
    val: Union[DataCifarVal, None]
    """Validation data: a part of the training data, or separate data."""
    weight: Union[str, None]
    """Column with the weight of each row in the loss, 0 or more. It isn't an input, and metrics count each row
    once."""


class DataNpy(TypedDict, total=False):
    """Two NumPy files: an array of inputs and one of targets."""
    classes: Union[List[str], None]
    """Names of the classes. Default: the numbers from 0 up to the largest target."""
    inputs: str
    """Path of the `.npy` file with the inputs: (samples, …)."""
    kind: Literal['npy']
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    standardise: bool
    """Whether to standardise inputs to mean 0 and standard deviation 1 over the training samples: per column if
    samples have rank 1, over all elements otherwise."""
    stratified: bool
    """Whether a `count` or `fraction` keeps the class proportions of the training data."""
    target_scaling: Union[Literal['standard', 'log', 'log1p'], None]
    """Scaling of numeric targets for the loss. Metrics, predictions, and what hooks see stay in the arrays' own
    units. Default: none."""
    targets: Union[str, None]
    """Path of the `.npy` file with the targets: integers are classes, (samples) or (samples, positions); floats
    are numeric targets, (samples) or (samples, numbers). Default: the inputs themselves, as the model gets them,
    for an autoencoder."""
    test: Union[DataNpyTest, None]
    """Test data: a part of the training data, or separate data."""
    val: Union[DataNpyVal, None]
    """Validation data: a part of the training data, or separate data."""


class DataNpyTest(TypedDict, total=False):
    """Test data: a part of the training data, or separate data."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""
    inputs: Union[str, None]
    """Path of a separate file with inputs."""
    targets: Union[str, None]
    """Path of the file with their targets."""


class DataNpyVal(TypedDict, total=False):
    """Validation data: a part of the training data, or separate data."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""
    inputs: Union[str, None]
    """Path of a separate file with inputs."""
    targets: Union[str, None]
    """Path of the file with their targets."""


class DataSafetensors(TypedDict, total=False):
    """A safetensors file with a tensor of inputs and one of targets."""
    classes: Union[List[str], None]
    """Names of the classes. Default: the numbers from 0 up to the largest target."""
    file: str
    """Path of the file. Separate files for `val` and `test` have tensors of the same names."""
    inputs: str
    """Name of the tensor of inputs: (samples, …)."""
    kind: Literal['safetensors']
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    standardise: bool
    """Whether to standardise inputs to mean 0 and standard deviation 1 over the training samples: per column if
    samples have rank 1, over all elements otherwise."""
    stratified: bool
    """Whether a `count` or `fraction` keeps the class proportions of the training data."""
    target_scaling: Union[Literal['standard', 'log', 'log1p'], None]
    """Scaling of numeric targets for the loss. Metrics, predictions, and what hooks see stay in the arrays' own
    units. Default: none."""
    targets: Union[str, None]
    """Name of the tensor of targets: integers are classes, (samples) or (samples, positions); floats are numeric
    targets, (samples) or (samples, numbers). Null: the inputs themselves, as the model gets them, for an
    autoencoder."""
    test: Union[DataCifarTest, None]
    """Test data: a part of the training data, or separate data."""
    val: Union[DataCifarVal, None]
    """Validation data: a part of the training data, or separate data."""


class DataTwoMoons(TypedDict, total=False):
    """Two interleaved half circles, drawn from the seed."""
    kind: Literal['two-moons']
    noise: float
    """Standard deviation of the noise on both coordinates; the circles have radius 1."""
    test: int
    """Number of test samples; 0 for no test."""
    train: int
    """Number of training samples."""
    val: int
    """Number of validation samples; 0 for no validation."""


class DataRegression(TypedDict, total=False):
    """A regression problem with coefficients drawn from the seed, and noise."""
    features: int
    """Number of inputs per sample, each standard normal."""
    informative: int
    """Number of inputs, the first ones, on which the target depends."""
    kind: Literal['regression']
    noise: float
    """Standard deviation of the noise on the target."""
    nonlinear: bool
    """Whether the target also depends on products of neighbouring inputs."""
    test: int
    """Number of test samples; 0 for no test."""
    train: int
    """Number of training samples."""
    val: int
    """Number of validation samples; 0 for no validation."""


class DataText(TypedDict, total=False):
    """A text file; the model learns to predict the next byte or character, or token of a tokenizer."""
    context: int
    """Number of tokens per sample."""
    file: str
    """Path of the text file."""
    kind: Literal['text']
    memory: Literal['auto', 'whole', 'on-demand']
    """Whether the text is read before training or when a batch needs a part of it. Text in characters is checked
    before training in any case."""
    stride: Union[int, None]
    """Number of tokens from the start of one training sample to the next. Default: `context`, so that each token
    is in one sample. Validation and test always use the default."""
    test: Union[DataTextTest, None]
    """Test data: the last part of the text, or a separate file."""
    tokenizer: Union[str, None]
    """Path of the `tokenizer.json` that makes the text's tokens. They are made once, and kept in the user's cache
    directory; `sconce tokenize` makes them for large texts. Default: none, tokens are of `unit`."""
    unit: Literal['byte', 'char']
    """Unit of a token."""
    val: Union[DataTextVal, None]
    """Validation data: the part of the text after the training part, or a separate file."""


class DataTextTest(TypedDict, total=False):
    """Test data: the last part of the text, or a separate file."""
    file: Union[str, None]
    """Path of a separate file."""
    fraction: Union[float, None]
    """Contiguous fraction of the text; above 0 and below 1."""


class DataTextVal(TypedDict, total=False):
    """Validation data: the part of the text after the training part, or a separate file."""
    file: Union[str, None]
    """Path of a separate file."""
    fraction: Union[float, None]
    """Contiguous fraction of the text; above 0 and below 1."""


class DataTokens(TypedDict, total=False):
    """Files of tokens; the model learns to predict the next one."""
    context: int
    """Number of tokens per sample."""
    documents: Literal['joined', 'separate']
    """Whether a sample's documents are read as one text."""
    dtype: Union[Literal['u16', 'u32'], None]
    """Type of the numbers in raw files. Default: that of the directories, or `'u16'`."""
    end: Union[int, None]
    """Token at the end of each document. Default: that of the directories."""
    files: List[str]
    """Paths of token files, in order, or of directories that `sconce tokenize` wrote: raw numbers as nanoGPT
    writes them, or one-dimensional NumPy arrays (`.npy`)."""
    kind: Literal['tokens']
    test: Union[DataTokensTest, None]
    """Test data: the last part of the tokens, or files of their own."""
    val: Union[DataTokensVal, None]
    """Validation data: the part of the tokens after the training part, or files of their own."""
    vocabulary: Union[int, str, None]
    """Number of different tokens, or the path of the `tokenizer.json` that made them, or of its directory.
    Default: the tokenizer in the directories."""


class DataTokensTest(TypedDict, total=False):
    """Test data: the last part of the tokens, or files of their own."""
    files: Union[List[str], None]
    """Paths of files or directories of their own."""
    fraction: Union[float, None]
    """Contiguous fraction of the tokens; above 0 and below 1."""


class DataTokensVal(TypedDict, total=False):
    """Validation data: the part of the tokens after the training part, or files of their own."""
    files: Union[List[str], None]
    """Paths of files or directories of their own."""
    fraction: Union[float, None]
    """Contiguous fraction of the tokens; above 0 and below 1."""


class DataJsonl(TypedDict, total=False):
    """A JSON object on each line, with a text and its class, or a prompt and its completion."""
    completion: Union[str, None]
    """Key of the text to learn. Default: `completion`."""
    context: int
    """Number of tokens per sample: shorter rows are filled up, longer ones cut."""
    end: Union[str, None]
    """Token after a completion, which is learnt too. Default: the tokenizer's, such as `<|endoftext|>` or
    `</s>`."""
    file: str
    """Path of the file."""
    kind: Literal['jsonl']
    label: Union[str, None]
    """Key of its class, a text or a whole number. Default: `label`."""
    messages: Union[str, None]
    """Key of a conversation: a list of objects with `role` and `content`. Default: `messages`, if the first row
    has it."""
    packing: bool
    """Whether several rows share a sample, in which each sees itself alone, so that little is filled up. Not for
    classes."""
    prompt: Union[str, None]
    """Key of the text before the completion, which is not learnt. Default: `prompt`, if the first row has it."""
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    template: Union[str, None]
    """Path of the `tokenizer_config.json` or `.jinja` whose chat template makes text of conversations. Default:
    what is beside `tokenizer`."""
    test: Union[DataJsonlTest, None]
    """Test data: a part of this file or a separate file."""
    text: Union[str, None]
    """Key of the text to classify. Default: `text`, if the first row has it with a label."""
    tokenizer: str
    """Path of the `tokenizer.json` that makes tokens of the texts, or of its directory. They are made once, and
    kept in the user's cache directory."""
    val: Union[DataJsonlVal, None]
    """Validation data: a part of this file or a separate file."""


class DataJsonlTest(TypedDict, total=False):
    """Test data: a part of this file or a separate file."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    file: Union[str, None]
    """Path of a separate file (or folder, if the training data is one)."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""


class DataJsonlVal(TypedDict, total=False):
    """Validation data: a part of this file or a separate file."""
    count: Union[int, None]
    """Number of samples to take from the training data, at random from the seed."""
    file: Union[str, None]
    """Path of a separate file (or folder, if the training data is one)."""
    fold: Union[int, None]
    """Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample
    once."""
    folds: Union[int, None]
    """Number of these parts."""
    fraction: Union[float, None]
    """Fraction of the training data to take, at random from the seed; above 0 and below 1."""


class DataParquet(TypedDict, total=False):
    """A Parquet file with such rows: a text and its class, a prompt and its completion, or a list of messages."""
    completion: Union[str, None]
    """Key of the text to learn. Default: `completion`."""
    context: int
    """Number of tokens per sample: shorter rows are filled up, longer ones cut."""
    end: Union[str, None]
    """Token after a completion, which is learnt too. Default: the tokenizer's, such as `<|endoftext|>` or
    `</s>`."""
    file: str
    """Path of the file."""
    kind: Literal['parquet']
    label: Union[str, None]
    """Key of its class, a text or a whole number. Default: `label`."""
    messages: Union[str, None]
    """Key of a conversation: a list of objects with `role` and `content`. Default: `messages`, if the first row
    has it."""
    packing: bool
    """Whether several rows share a sample, in which each sees itself alone, so that little is filled up. Not for
    classes."""
    prompt: Union[str, None]
    """Key of the text before the completion, which is not learnt. Default: `prompt`, if the first row has it."""
    split_seed: Union[int, None]
    """Seed of the parts for validation and test, apart from the manifest's. Default: that one."""
    template: Union[str, None]
    """Path of the `tokenizer_config.json` or `.jinja` whose chat template makes text of conversations. Default:
    what is beside `tokenizer`."""
    test: Union[DataJsonlTest, None]
    """Test data: a part of this file or a separate file."""
    text: Union[str, None]
    """Key of the text to classify. Default: `text`, if the first row has it with a label."""
    tokenizer: str
    """Path of the `tokenizer.json` that makes tokens of the texts, or of its directory. They are made once, and
    kept in the user's cache directory."""
    val: Union[DataJsonlVal, None]
    """Validation data: a part of this file or a separate file."""


class DataGrammar(TypedDict, total=False):
    """Sentences of a small grammar, drawn from the seed; nothing to download."""
    context: int
    """Number of characters per sample."""
    kind: Literal['grammar']
    test: int
    """Number of test samples; 0 for no test."""
    train: int
    """Number of training samples."""
    val: int
    """Number of validation samples; 0 for no validation."""


class Distributed(TypedDict, total=False):
    """How processes train together, where a launcher has started several."""
    batch_norm: Literal['batch', 'ranks']
    """Statistics of batch norms in training."""
    batches: Literal['rank', 'update']
    """What `train.accumulate` counts: the batches of an update on each rank, or those on all of them together.
    The latter makes the result independent of the number of ranks."""
    check_every: int
    """Updates between two checks that all ranks have the same parameters; 0 for none."""
    engine: Literal['auto', 'mpi', 'sockets', 'none']
    """What moves bytes between ranks."""
    gradients: Literal['auto', 'host', 'nccl']
    """Where gradients are summed over the ranks. The sums have the same bits everywhere."""
    timeout: float
    """Seconds that a rank waits for the others before the run ends."""
    validation: Literal['shared', 'whole']
    """How ranks evaluate."""
    wire: Literal['own', 'bf16']
    """The type that gradients have on their way to other ranks."""


class HooksItem2(TypedDict, total=False):
    """The object form of an entry."""
    config: dict
    """The hook's own configuration."""
    every: Union[HooksItem2Every, None]
    """In which iterations, updates or epochs the hook is called. Default: in all."""
    hook: str
    """Name of the hook, or `plugin/hook` if two plugins provide it; `sconce plugins` lists them. For a hook in
    Python its file, as in `hooks/f1.py` or `hooks/f1.py:Class`."""
    isolation: Literal['none', 'process']
    """The process that the hook runs in."""
    library: Union[str, None]
    """Path of the library, instead of the one found in the plugin directories."""
    modules: Union[List[str], None]
    """The modules at which `module_forward` and `module_backward` are called. In these names, `*` matches any
    characters and `?` a single one. Default: all."""
    name: Union[str, None]
    """Unique name of the entry. Default: the hook's name, then `hook-2`, and so on."""
    on_crash: Union[Literal['fail', 'disable', 'restart'], HooksItem2OnCrash12, None]
    """What happens when the process of an isolated hook crashes, or is killed at its time limit. Default: as
    `on_error`; `restart` if that is `ignore`."""
    on_error: Literal['fail', 'disable', 'ignore']
    """What happens when the hook returns an error."""
    on_panic: Union[Literal['fail', 'disable', 'restart'], HooksItem2OnCrash12, None]
    """What happens when the hook panics, which may leave it half changed: `fail`, `disable`, or `restart` (3
    times) or `{'restart': N}`, which recreates it from its last saved state. Default: as `on_error`; `restart` if
    that is `ignore`."""
    phases: Union[List[Literal['train', 'val', 'test', 'predict']], None]
    """The phases in which the hook is called. Default: all."""
    priority: Union[Literal['HIGHEST', 'HIGHER', 'HIGH', 'NORMAL', 'LOW', 'LOWER', 'LOWEST'], int, None]
    """`HIGHEST`, `HIGHER`, `HIGH`, `NORMAL`, `LOW`, `LOWER`, `LOWEST`, or 0 (first) to 100 (last). Default: the
    hook's."""
    ranks: Union[Literal['first', 'all'], None]
    """Where the hook runs when several processes train together. Default: where its author has chosen, which is
    the first rank alone for most hooks."""
    reload: Literal['asked', 'changed', 'never']
    """When the hook's library is loaded again in mid-run, with the hook's state carried over. With `sha256`:
    never."""
    sandbox: Union[bool, HooksItem2Sandbox12, None]
    """What the process of the hook may use: `true` for the system's libraries and the run's directory alone, or
    an object with exceptions. Isolates the hook. Default: everything that the run may."""
    sha256: Union[str, None]
    """SHA-256 of the library file, as 64 hexadecimal digits."""
    signed_by: Union[str, None]
    """Name of the key in `trust.json` that must have signed the library."""
    streams: Union[List[str], None]
    """The data sets for whose passes the hook is called: `train`, `val`, `test`, or the task's own names.
    Default: all."""
    time_limit: Union[float, None]
    """Seconds after which one of the hook's calls counts as a hang, which ends the process. Default:
    `limits.call`."""


class HooksItem2Every(TypedDict, total=False):
    """In which iterations, updates or epochs the hook is called. Default: in all."""
    epochs: Union[int, None]
    """Every n training epochs, with their validations."""
    iterations: Union[int, None]
    """Every n batches."""
    offset: int
    """Which of every n is selected. With 0 (default) the n-th, the 2n-th and so on; with 1 the first, the
    (n+1)-th and so on."""
    updates: Union[int, None]
    """Every n updates of the parameters."""


class HooksItem2OnCrash12(TypedDict, total=False):
    """Restarts, as often as the number says; the next crash disables the hook."""
    restart: int
    """Most restarts in a run."""


class HooksItem2Sandbox12(TypedDict, total=False):
    """Rules."""
    environment: List[str]
    """Environment variables that it may see, besides those that say where and how a program runs: `PATH`, `HOME`,
    the locale, numbers of threads."""
    memory: Union[int, str, None]
    """Most memory (address space) that library and hook may take, in bytes or as text: `512MiB`, `1GiB`. Default:
    no limit."""
    network: bool
    """Whether it may open sockets."""
    processes: bool
    """Whether it may start other programs."""
    read: List[str]
    """Files and directories that may be read, besides the system's libraries and the run's directory."""
    strict: bool
    """Whether it is an error if the system can't enforce all of it. Linux can from 6.2 on, unless Landlock is
    turned off."""
    write: List[str]
    """Directories that may be written to, besides the run's."""


class Limits(TypedDict, total=False):
    """Time limits for plugins."""
    call: Union[float, None]
    """A hook's call that takes longer than this counts as a hang and ends the process. Default: no limit. An
    entry's `time_limit` takes precedence."""
    hook_share: float
    """A hook that takes more than this fraction (0 to 1) of a pass over a phase's data causes a warning."""
    load: float
    """Limit for opening the libraries in a trial process; a plugin that takes longer is refused. The environment
    variable `SCONCE_LOAD_LIMIT` takes precedence."""
    slow_call: float
    """A hook's call that takes longer than this causes a warning."""


class Loss12CrossEntropy(TypedDict, total=False):
    """Cross entropy between a logit per class and the target class."""
    class_weights: Union[Literal['balanced'], List[float], dict, None]
    """Weights of the classes: a list in the order of the classes, an object by their names, or `'balanced'`.
    Default: all equal."""
    ignore_index: Union[int, None]
    """Target class to ignore: samples or positions with it do not count in loss or metrics. It does not have to
    be one of the classes."""
    kind: Literal['cross-entropy']
    label_smoothing: float
    """Fraction of the target distribution spread over all classes, from 0 to below 1."""


class Loss12BinaryCrossEntropy(TypedDict, total=False):
    """Binary cross entropy of a logit per target that is 0 (no) or 1 (yes), or a probability."""
    kind: Literal['binary-cross-entropy']
    pos_weight: Union[List[float], None]
    """Weight of yes against no, above 0, for each target. Default: 1."""


class Loss12Mse(TypedDict, total=False):
    """Mean squared error."""
    kind: Literal['mse']


class Loss12L1(TypedDict, total=False):
    """Mean absolute error."""
    kind: Literal['l1']


class Loss12Huber(TypedDict, total=False):
    """Huber loss: quadratic for small errors, linear for large ones."""
    delta: float
    """Absolute error above which the loss is linear, above 0."""
    kind: Literal['huber']


class Loss12Given(TypedDict, total=False):
    """What a hook gives for each batch, with its gradient, such as those of self-supervised learning. For any
    targets."""
    kind: Literal['given']


class MetricsItem2Accuracy(TypedDict, total=False):
    """For classes: the fraction with the largest logit at the target."""
    kind: Literal['accuracy']


class MetricsItem2TopK(TypedDict, total=False):
    """For classes: the fraction with the target among the k largest logits, e.g. `top5_accuracy`."""
    k: int
    """Number of largest logits, from 1 to below the number of classes."""
    kind: Literal['top-k']


class MetricsItem2Precision(TypedDict, total=False):
    """For classes: the fraction of predictions of a class that are correct."""
    average: Literal['macro', 'micro']
    """Averaging over the classes."""
    kind: Literal['precision']


class MetricsItem2Recall(TypedDict, total=False):
    """For classes: the fraction of a class's samples that are predicted as that class."""
    average: Literal['macro', 'micro']
    """Averaging over the classes."""
    kind: Literal['recall']


class MetricsItem2F1(TypedDict, total=False):
    """For classes: the harmonic mean of precision and recall."""
    average: Literal['macro', 'micro']
    """Averaging over the classes."""
    kind: Literal['f1']


class MetricsItem2ConfusionMatrix(TypedDict, total=False):
    """For at most 32 classes: how often each class was predicted as each, as `confusion/ACTUAL/PREDICTED`."""
    kind: Literal['confusion-matrix']


class MetricsItem2Perplexity(TypedDict, total=False):
    """For classes: the exponential of the mean cross entropy."""
    kind: Literal['perplexity']


class MetricsItem2BitsPerByte(TypedDict, total=False):
    """For text: the bits that a byte of it costs by the model, which compares vocabularies."""
    kind: Literal['bits-per-byte']


class MetricsItem2Mae(TypedDict, total=False):
    """For numeric targets: the mean absolute error."""
    kind: Literal['mae']


class MetricsItem2Rmse(TypedDict, total=False):
    """For numeric targets: the root mean squared error."""
    kind: Literal['rmse']


class MetricsItem2R2(TypedDict, total=False):
    """For numeric targets: the coefficient of determination, averaged over the targets."""
    kind: Literal['r2']


class MetricsItem2BinaryAccuracy(TypedDict, total=False):
    """For targets that are 0 or 1: the fraction of logits on the correct side of 0."""
    kind: Literal['binary-accuracy']


class ModelMlp(TypedDict, total=False):
    """A multi-layer perceptron."""
    activation: Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity']
    """Nonlinearity between the layers."""
    dropout: float
    """Fraction of the hidden layers' outputs dropped during training, from 0 to below 1."""
    embedding_width: Union[int, None]
    """Length of the vectors of categories in the columns of `data.embed`. Default: by their number, as in `embed-
    categories`."""
    hidden: List[int]
    """Widths of the hidden layers, first to last; empty for a linear model."""
    kind: Literal['mlp']


class ModelConvnet(TypedDict, total=False):
    """A convolutional network for images."""
    activation: Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity']
    """Nonlinearity."""
    batch_norm: bool
    """Whether each convolution is followed by batch normalisation; it then has no bias."""
    channels: List[int]
    """Output channels of the convolutions `conv1`, `conv2`, …."""
    conv_activation: Union[Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity'], None]
    """Nonlinearity after the convolutions; `identity` for none. Default: `activation`."""
    dropout: float
    """Fraction of the linear layers' outputs dropped during training, from 0 to below 1."""
    hidden: List[int]
    """Widths of the linear layers `fc1`, `fc2`, … before the last one."""
    kernel: Union[int, List[int]]
    """Kernel size of the convolutions."""
    kind: Literal['convnet']
    padding: Union[int, List[int]]
    """Zero padding of the convolutions."""
    pool: int
    """Window size of the max pooling after each convolution; 1 for none."""


class ModelResnet(TypedDict, total=False):
    """A residual network for images."""
    block: Literal['basic', 'bottleneck']
    """Kind of the blocks."""
    blocks: List[int]
    """Number of blocks in each stage. Every stage except the first halves the image and doubles the channels."""
    kind: Literal['resnet']
    recompute: bool
    """Whether the blocks' activations are recomputed in the backward pass instead of kept for it."""
    stem: Literal['small', 'large']
    """Layers before the stages."""
    width: int
    """Channels of the first stage; with bottlenecks those inside its blocks, whose outputs have four times as
    many."""


class ModelVit(TypedDict, total=False):
    """A vision transformer for images."""
    activation: Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity']
    """Nonlinearity."""
    dropout: float
    """Fraction of elements dropped during training, from 0 to below 1."""
    expansion: int
    """Width of the blocks' hidden linear layers, as a multiple of `width`."""
    heads: int
    """Number of attention heads; `width` must be a multiple of it."""
    kind: Literal['vit']
    layers: int
    """Number of blocks of attention and linear layers."""
    patch: int
    """Side of a patch, in pixels. Pixels that remain at the right and at the bottom are left out."""
    recompute: bool
    """Whether the blocks' activations are recomputed in the backward pass instead of kept for it."""
    width: int
    """Length of the vector of each patch."""


class ModelGpt(TypedDict, total=False):
    """A decoder-only transformer for text."""
    activation: Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity']
    """Nonlinearity."""
    bias: bool
    """Whether the linear layers have biases; the last has none."""
    dropout: float
    """Fraction of elements dropped during training, from 0 to below 1."""
    expansion: int
    """Width of the blocks' hidden linear layers, as a multiple of `width`."""
    heads: int
    """Number of attention heads; `width` must be a multiple of it."""
    init_std: Union[float, None]
    """Standard deviation of all weights' initial values. Default: PyTorch's initialisations."""
    kind: Literal['gpt']
    layers: int
    """Number of blocks of attention and linear layers."""
    norm: Literal['layer', 'rms']
    """Normalisation."""
    positions: Literal['learned', 'rotary']
    """Encoding of positions."""
    recompute: bool
    """Whether the blocks' activations are recomputed in the backward pass instead of kept for it."""
    width: int
    """Length of the vector at each position."""


class ModelTransformers(TypedDict, total=False):
    """A model of `transformers`, described by its own `config.json`."""
    config: Union[str, dict]
    """The model's `config.json`: the file, the directory it is in, or the object itself. Families: `gpt2`,
    `llama`, `mistral`, `qwen2`, `qwen3`, `bert`, `vit`, `resnet`, `convnext`."""
    head: Union[Literal['language', 'classification', 'none'], None]
    """What the model ends with. Default: by the data's targets."""
    kind: Literal['transformers']
    recompute: bool
    """Whether the blocks' activations are recomputed in the backward pass instead of kept for it."""


class ModelSequential(TypedDict, total=False):
    """A list of layers that run in order."""
    kind: Literal['sequential']
    layers: List[Union[ModelSequentialLayersItemLinear, ModelSequentialLayersItemConv1d, ModelSequentialLayersItemConv2d, ModelSequentialLayersItemConvTranspose2d, ModelSequentialLayersItemUpsample, ModelSequentialLayersItemMaxPool2d, ModelSequentialLayersItemAvgPool2d, ModelSequentialLayersItemAdaptiveMaxPool2d, ModelSequentialLayersItemAdaptiveAvgPool2d, ModelSequentialLayersItemBatchNorm, ModelSequentialLayersItemGroupNorm, ModelSequentialLayersItemLayerNorm, ModelSequentialLayersItemRmsNorm, ModelSequentialLayersItemUnitNorm, ModelSequentialLayersItemDropout, ModelSequentialLayersItemDropPath, ModelSequentialLayersItemScale, ModelSequentialLayersItemEmbedding, ModelSequentialLayersItemEmbedCategories, ModelSequentialLayersItemPositionEmbedding, ModelSequentialLayersItemClassToken, ModelSequentialLayersItemMaskTokens, ModelSequentialLayersItemAttention, ModelSequentialLayersItemLstm, ModelSequentialLayersItemGru, ModelSequentialLayersItemActivation, ModelSequentialLayersItemRelu, ModelSequentialLayersItemGelu, ModelSequentialLayersItemGeluTanh, ModelSequentialLayersItemQuickGelu, ModelSequentialLayersItemSilu, ModelSequentialLayersItemTanh, ModelSequentialLayersItemSigmoid, ModelSequentialLayersItemFlatten, ModelSequentialLayersItemReshape, ModelSequentialLayersItemTranspose, ModelSequentialLayersItemPositions, ModelSequentialLayersItemMeanPositions, ModelSequentialLayersItemSelect, ModelSequentialLayersItemSequential, LayerConfigResidual, LayerConfigRepeat, LayerConfigParallel]]
    """Layers, from the data's inputs to the outputs that its targets need."""


class ModelSequentialLayersItemLinear(TypedDict, total=False):
    """y = x · Wᵀ + b over the last dimension."""
    bias: Union[bool, None]
    """Whether a bias is added. Default: true, with `tied` false."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the weight. Default: PyTorch's."""
    kind: Literal['linear']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    outputs: Union[int, None]
    """Number of outputs. Default: the number that the data's targets need, or the rows of the weight that `tied`
    names."""
    tied: Union[str, None]
    """Full name of an earlier `embedding` or `linear` layer, whose weight this layer uses instead of one of its
    own: one parameter, whose gradient is the sum of both layers'."""
    transposed: bool
    """Whether the weight is stored as (inputs, outputs), as GPT-2's are, instead of (outputs, inputs)."""


class ModelSequentialLayersItemLinearInit1Constant(TypedDict, total=False):
    """The same value everywhere."""
    kind: Literal['constant']
    value: float
    """Value of every element."""


class ModelSequentialLayersItemLinearInit1Uniform(TypedDict, total=False):
    """Uniform between two values."""
    high: float
    """Upper bound, exclusive."""
    kind: Literal['uniform']
    low: float
    """Lower bound, inclusive."""


class ModelSequentialLayersItemLinearInit1Normal(TypedDict, total=False):
    """Normal distribution."""
    kind: Literal['normal']
    mean: float
    """Mean."""
    std: float
    """Standard deviation, 0 or more."""


class ModelSequentialLayersItemLinearInit1KaimingUniform(TypedDict, total=False):
    """Uniform, scaled by the number of inputs (He et al., 2015)."""
    a: float
    """Negative slope of the nonlinearity that follows the layer."""
    kind: Literal['kaiming-uniform']


class ModelSequentialLayersItemLinearInit1KaimingNormal(TypedDict, total=False):
    """Normal, scaled by the number of inputs (He et al., 2015)."""
    a: float
    """Negative slope of the nonlinearity that follows the layer."""
    kind: Literal['kaiming-normal']


class ModelSequentialLayersItemLinearInit1XavierUniform(TypedDict, total=False):
    """Uniform, scaled by the numbers of inputs and outputs (Glorot and Bengio, 2010)."""
    kind: Literal['xavier-uniform']


class ModelSequentialLayersItemLinearInit1XavierNormal(TypedDict, total=False):
    """Normal, scaled by the numbers of inputs and outputs (Glorot and Bengio, 2010)."""
    kind: Literal['xavier-normal']


class ModelSequentialLayersItemConv1d(TypedDict, total=False):
    """A convolution over sequences of shape (channels, length)."""
    bias: bool
    """Whether a bias is added."""
    channels: int
    """Number of output channels."""
    dilation: int
    """Step from one kernel element to the next."""
    groups: int
    """Number of groups into which the channels are divided."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the weight. Default: PyTorch's."""
    kernel: int
    """Kernel size."""
    kind: Literal['conv1d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    padding: int
    """Zeros added on both sides."""
    stride: int
    """Step from one window to the next."""


class ModelSequentialLayersItemConv2d(TypedDict, total=False):
    """A convolution over images of shape (channels, height, width)."""
    bias: bool
    """Whether a bias is added."""
    channels: int
    """Number of output channels."""
    dilation: Union[int, List[int]]
    """Step from one kernel element to the next."""
    groups: int
    """Number of groups into which the channels are divided."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the weight. Default: PyTorch's."""
    kernel: Union[int, List[int]]
    """Kernel size."""
    kind: Literal['conv2d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    padding: Union[int, List[int]]
    """Zeros added on all sides."""
    stride: Union[int, List[int]]
    """Step from one window to the next."""


class ModelSequentialLayersItemConvTranspose2d(TypedDict, total=False):
    """A transposed convolution over images, which enlarges them by its stride."""
    bias: bool
    """Whether a bias is added."""
    channels: int
    """Number of output channels."""
    dilation: Union[int, List[int]]
    """Step from one kernel element to the next."""
    groups: int
    """Number of groups into which the channels are divided."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the weight. Default: PyTorch's."""
    kernel: Union[int, List[int]]
    """Kernel size."""
    kind: Literal['conv-transpose2d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    output_padding: Union[int, List[int]]
    """Rows and columns that are added after the last windows, fewer than the stride."""
    padding: Union[int, List[int]]
    """Elements that are left out on all sides of the output."""
    stride: Union[int, List[int]]
    """Step from one window of the output to the next."""


class ModelSequentialLayersItemUpsample(TypedDict, total=False):
    """Enlarges images by a whole factor."""
    factor: Union[int, List[int]]
    """Factor by which images become larger."""
    kind: Literal['upsample']
    mode: Literal['nearest', 'bilinear']
    """How the elements in between are found."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemMaxPool2d(TypedDict, total=False):
    """The maximum of each window of an image."""
    kernel: Union[int, List[int]]
    """Kernel size."""
    kind: Literal['max-pool2d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    padding: Union[int, List[int]]
    """Padding on all sides, at most half of the kernel size: zeros for a mean, and never the maximum."""
    stride: Union[int, List[int], None]
    """Step from one window to the next. Default: the kernel size."""


class ModelSequentialLayersItemAvgPool2d(TypedDict, total=False):
    """The mean of each window of an image."""
    kernel: Union[int, List[int]]
    """Kernel size."""
    kind: Literal['avg-pool2d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    padding: Union[int, List[int]]
    """Padding on all sides, at most half of the kernel size: zeros for a mean, and never the maximum."""
    stride: Union[int, List[int], None]
    """Step from one window to the next. Default: the kernel size."""


class ModelSequentialLayersItemAdaptiveMaxPool2d(TypedDict, total=False):
    """Maxima over a fixed number of windows, which cover an image of any size."""
    kind: Literal['adaptive-max-pool2d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    size: Union[int, List[int]]
    """Number of windows, which is the size of the output."""


class ModelSequentialLayersItemAdaptiveAvgPool2d(TypedDict, total=False):
    """Means over a fixed number of windows, which cover an image of any size."""
    kind: Literal['adaptive-avg-pool2d']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    size: Union[int, List[int]]
    """Number of windows, which is the size of the output."""


class ModelSequentialLayersItemBatchNorm(TypedDict, total=False):
    """Batch normalisation of each channel; uses running statistics outside training."""
    epsilon: float
    """Constant added to the variance; above 0."""
    kind: Literal['batch-norm']
    momentum: float
    """Weight of a batch's statistics when the running ones are updated."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemGroupNorm(TypedDict, total=False):
    """Normalisation of groups of an image's channels (Wu and He, 2018)."""
    epsilon: float
    """Constant added to the variance; above 0."""
    groups: int
    """Number of groups; the channels must be a multiple of it."""
    kind: Literal['group-norm']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemLayerNorm(TypedDict, total=False):
    """Layer normalisation over the last dimension."""
    epsilon: float
    """Constant added to the variance, or to the mean square; above 0."""
    kind: Literal['layer-norm']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemRmsNorm(TypedDict, total=False):
    """Root mean square normalisation over the last dimension."""
    epsilon: float
    """Constant added to the variance, or to the mean square; above 0."""
    kind: Literal['rms-norm']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemUnitNorm(TypedDict, total=False):
    """The last dimension divided by its length, as a direction."""
    kind: Literal['unit-norm']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemDropout(TypedDict, total=False):
    """Sets a fraction of the elements to zero during training."""
    kind: Literal['dropout']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    share: float
    """Fraction of elements set to zero, from 0 to below 1."""


class ModelSequentialLayersItemDropPath(TypedDict, total=False):
    """Sets all elements of a fraction of the samples to zero during training: stochastic depth, at the end of a
    residual branch (Huang et al., 2016)."""
    kind: Literal['drop-path']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    share: float
    """Fraction of samples set to zero, from 0 to below 1; the others are divided by the rest."""


class ModelSequentialLayersItemScale(TypedDict, total=False):
    """A learned factor for each element of the last dimension."""
    init: float
    """Initial value of the factors."""
    kind: Literal['scale']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemEmbedding(TypedDict, total=False):
    """A learned vector per token."""
    default: Union[int, None]
    """Token at every position of the layer's input, where the data have no `input` of this name."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the table. Default: standard normal."""
    input: Union[str, None]
    """Name of an input of the batch to read instead of the layer's input, e.g. `token_types`."""
    kind: Literal['embedding']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    padding: Union[int, None]
    """Token whose vector starts as zeros and gets no gradient."""
    tied: Union[str, None]
    """Full name of an earlier `embedding` or `linear` layer, whose weight is the table."""
    tokens: Union[int, None]
    """Rows of the table, at least as many as the data have tokens. Default: as many."""
    width: Union[int, None]
    """Length of the vectors. Default: that of the table that `tied` names."""


class ModelSequentialLayersItemEmbedCategories(TypedDict, total=False):
    """Replaces each category of a table's row by a learned vector: the columns of `data.embed`. Other inputs stay
    as they are."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the tables. Default: standard normal."""
    kind: Literal['embed-categories']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    width: Union[int, None]
    """Length of the vectors of all columns. Default: 1.6 · categories^0.56, at most 600, for each column."""


class ModelSequentialLayersItemPositionEmbedding(TypedDict, total=False):
    """Adds a learned vector to each position of (length, width)."""
    bare: bool
    """Whether the table is a parameter of the layer's own name and of shape (1, positions, width), instead of
    `NAME.weight` of shape (positions, width)."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the table. Default: standard normal."""
    kind: Literal['position-embedding']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    positions: Union[int, None]
    """Rows of the table, at least the length of the input. Default: as many."""


class ModelSequentialLayersItemClassToken(TypedDict, total=False):
    """Puts a learned vector in front of the positions of (length, width). Its parameter has the layer's own name,
    of shape (1, 1, width)."""
    kind: Literal['class-token']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemMaskTokens(TypedDict, total=False):
    """Puts a learned vector in the place of the positions of (length, width) that a hook masks in training: those
    where the tensor that it publishes under the name `mask` is 1. Without one it changes nothing. Its parameter
    has the layer's own name, of shape (width)."""
    kind: Literal['mask-tokens']
    mask: str
    """Name of the tensor that a hook publishes: (rows, length), 1 where a position is masked, 0 elsewhere.
    Default: that of `ibot`."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemAttention(TypedDict, total=False):
    """Multi-head self-attention over (length, width)."""
    bias: Union[bool, ModelSequentialLayersItemAttentionBias2]
    """Whether the projections have biases: one value for all, or one for each."""
    causal: bool
    """Whether a position attends only to itself and earlier positions."""
    dropout: float
    """Fraction of attention weights dropped during training, from 0 to below 1."""
    head_width: Union[int, None]
    """Width of a head. Default: the width, divided by the heads."""
    heads: int
    """Number of attention heads; without `head_width`, the width must be a multiple of it."""
    init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the projections' weights. Default: PyTorch's."""
    kind: Literal['attention']
    kv_heads: Union[int, None]
    """Number of heads of keys and values, a divisor of `heads`: each serves as many heads of queries. Default:
    `heads`."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    output_init: Union[ModelSequentialLayersItemLinearInit1Constant, ModelSequentialLayersItemLinearInit1Uniform, ModelSequentialLayersItemLinearInit1Normal, ModelSequentialLayersItemLinearInit1KaimingUniform, ModelSequentialLayersItemLinearInit1KaimingNormal, ModelSequentialLayersItemLinearInit1XavierUniform, ModelSequentialLayersItemLinearInit1XavierNormal, None]
    """Initialisation of the weight of the projection of the concatenated heads. Default: `init`."""
    projections: Union[ModelSequentialLayersItemAttentionProjections1, ModelSequentialLayersItemAttentionProjections2]
    """Names of the projections; they may contain dots."""
    query_norm: Union[ModelSequentialLayersItemAttentionQueryNorm, None]
    """Root mean square norms of the queries and keys of each head, before they are rotated."""
    rotary: Union[bool, ModelSequentialLayersItemAttentionRotary2]
    """Whether queries and keys get rotary position embeddings, or which."""
    scale: Union[float, None]
    """Factor of the scores, above 0. Default: 1 / √(width of a head)."""
    transposed: bool
    """Whether the weights of the projections are (inputs, outputs), as GPT-2's, and not (outputs, inputs)."""
    window: Union[int, None]
    """Number of positions that a position attends to, itself and those right before it; with `causal`. Default:
    all."""


class ModelSequentialLayersItemAttentionBias2(TypedDict, total=False):
    """Each of them."""
    key: bool
    """The projection to keys."""
    output: bool
    """The projection of the concatenated heads."""
    packed: bool
    """The projection to queries, keys and values."""
    query: bool
    """The projection to queries."""
    value: bool
    """The projection to values."""


class ModelSequentialLayersItemAttentionProjections1(TypedDict, total=False):
    """One projection to queries, keys and values, side by side."""
    output: str
    """Name of the projection of the concatenated heads."""
    packed: str
    """Name of the projection to queries, keys and values."""


class ModelSequentialLayersItemAttentionProjections2(TypedDict, total=False):
    """A projection to each."""
    key: str
    """Name of the projection to keys."""
    output: str
    """Name of the projection of the concatenated heads."""
    query: str
    """Name of the projection to queries."""
    value: str
    """Name of the projection to values."""


class ModelSequentialLayersItemAttentionQueryNorm(TypedDict, total=False):
    """Root mean square norms of the queries and keys of each head, before they are rotated."""
    epsilon: float
    """Constant added to the mean square; above 0."""
    key: str
    """Name of the norm of keys."""
    query: str
    """Name of the norm of queries."""


class ModelSequentialLayersItemAttentionRotary2(TypedDict, total=False):
    """Those with these angles."""
    base: float
    """Base of the angles, above 1."""
    scaling: Union[ModelSequentialLayersItemAttentionRotary2Scaling1Linear, ModelSequentialLayersItemAttentionRotary2Scaling1Llama3, None]
    """Change of the angles for contexts longer than those of pretraining. Default: none."""
    share: float
    """Fraction of a head's elements that is turned, the first ones; above 0, at most 1."""


class ModelSequentialLayersItemAttentionRotary2Scaling1Linear(TypedDict, total=False):
    """All angles are divided by a factor."""
    factor: float
    """The factor, above 0."""
    kind: Literal['linear']


class ModelSequentialLayersItemAttentionRotary2Scaling1Llama3(TypedDict, total=False):
    """Angles of low frequency are divided by a factor, those of high frequency stay, and those in between are
    mixed."""
    factor: float
    """The factor of low frequencies, above 0."""
    high_frequency_factor: float
    """Turns within the original positions from which a frequency is high; more than `low_frequency_factor`."""
    kind: Literal['llama3']
    low_frequency_factor: float
    """Turns within the original positions up to which a frequency is low."""
    original_positions: int
    """Number of positions of pretraining."""


class ModelSequentialLayersItemLstm(TypedDict, total=False):
    """Long short-term memory over (length, width): the states at all positions."""
    bias: bool
    """Whether the gates have biases."""
    bidirectional: bool
    """Whether a second pass goes from the last position to the first; its states follow those of the first
    pass."""
    hidden: int
    """Length of the state."""
    kind: Literal['lstm']
    layers: int
    """Number of layers, each over the states of the one before."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemGru(TypedDict, total=False):
    """Gated recurrent units over (length, width): the states at all positions."""
    bias: bool
    """Whether the gates have biases."""
    bidirectional: bool
    """Whether a second pass goes from the last position to the first; its states follow those of the first
    pass."""
    hidden: int
    """Length of the state."""
    kind: Literal['gru']
    layers: int
    """Number of layers, each over the states of the one before."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemActivation(TypedDict, total=False):
    """An elementwise nonlinearity."""
    function: Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity']
    """Function to apply."""
    kind: Literal['activation']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemRelu(TypedDict, total=False):
    """max(x, 0)."""
    kind: Literal['relu']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemGelu(TypedDict, total=False):
    """x · Φ(x), the exact form with the error function."""
    kind: Literal['gelu']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemGeluTanh(TypedDict, total=False):
    """The approximation of `gelu` by tanh, as GPT-2 has it: 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 ·
    x³)))."""
    kind: Literal['gelu-tanh']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemQuickGelu(TypedDict, total=False):
    """x · σ(1.702 · x), as CLIP has it."""
    kind: Literal['quick-gelu']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemSilu(TypedDict, total=False):
    """x · σ(x)."""
    kind: Literal['silu']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemTanh(TypedDict, total=False):
    """The hyperbolic tangent."""
    kind: Literal['tanh']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemSigmoid(TypedDict, total=False):
    """1 / (1 + e⁻ˣ)."""
    kind: Literal['sigmoid']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemFlatten(TypedDict, total=False):
    """Flattens a sample to one dimension."""
    kind: Literal['flatten']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemReshape(TypedDict, total=False):
    """The same elements in another shape."""
    kind: Literal['reshape']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    shape: List[int]
    """New shape of a sample."""


class ModelSequentialLayersItemTranspose(TypedDict, total=False):
    """Dimensions in another order."""
    axes: Union[List[int], None]
    """For each dimension of the output the one of the input, from 0, without the batch's: `[1, 2, 0]` makes
    (height, width, channels) of (channels, height, width). Default: the last two change places."""
    kind: Literal['transpose']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemPositions(TypedDict, total=False):
    """Pixels or patches as a sequence: (channels, height, width) to (height · width, channels), row by row, and
    (channels, length) to (length, channels)."""
    kind: Literal['positions']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemMeanPositions(TypedDict, total=False):
    """The mean over the positions of (length, width)."""
    kind: Literal['mean-positions']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemSelect(TypedDict, total=False):
    """One position of (length, width)."""
    at: Union[Literal['last'], int]
    """Position to select."""
    kind: Literal['select']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


class ModelSequentialLayersItemSequential(TypedDict, total=False):
    """A list of layers that run in order; their names begin with its own."""
    kind: Literal['sequential']
    layers: List[LayerConfig]
    """Layers inside."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    recompute: bool
    """Whether the activations of the layers inside are recomputed in the backward pass instead of kept for it."""


class LayerConfigResidual(TypedDict, total=False):
    """A residual connection: activation(layers(x) + shortcut(x))."""
    activation: Literal['relu', 'gelu', 'gelu-tanh', 'quick-gelu', 'silu', 'tanh', 'sigmoid', 'identity']
    """Nonlinearity after the sum."""
    kind: Literal['residual']
    layers: List[LayerConfig]
    """Layers of the main branch."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    recompute: bool
    """Whether the activations of the layers inside are recomputed in the backward pass instead of kept for it."""
    shortcut: List[LayerConfig]
    """Layers of the other branch. Default: none, the input itself."""


class LayerConfigRepeat(TypedDict, total=False):
    """A list of layers several times, each with parameters of its own: those of repetition 0 are named
    `NAME.0.…`."""
    count: int
    """Number of repetitions."""
    kind: Literal['repeat']
    layers: List[LayerConfig]
    """Layers of a repetition."""
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""
    recompute: bool
    """Whether the activations inside each repetition are recomputed in the backward pass instead of kept for
    it."""


class LayerConfigParallel(TypedDict, total=False):
    """Several lists of layers with the same input, whose outputs are combined."""
    axis: int
    """Dimension along which outputs are concatenated, from 0, without the batch's."""
    branches: List[List[LayerConfig]]
    """Lists of layers; one without layers is the input itself."""
    combine: Literal['add', 'multiply', 'concatenate']
    """How the branches' outputs are combined."""
    kind: Literal['parallel']
    name: Union[str, None]
    """Name of the layer: the prefix of its parameters' names, and the module's for hooks. Default: its kind and a
    number; kinds that only rearrange elements are no modules without a name."""


LayerConfig = Union["ModelSequentialLayersItemLinear", "ModelSequentialLayersItemConv1d", "ModelSequentialLayersItemConv2d", "ModelSequentialLayersItemConvTranspose2d", "ModelSequentialLayersItemUpsample", "ModelSequentialLayersItemMaxPool2d", "ModelSequentialLayersItemAvgPool2d", "ModelSequentialLayersItemAdaptiveMaxPool2d", "ModelSequentialLayersItemAdaptiveAvgPool2d", "ModelSequentialLayersItemBatchNorm", "ModelSequentialLayersItemGroupNorm", "ModelSequentialLayersItemLayerNorm", "ModelSequentialLayersItemRmsNorm", "ModelSequentialLayersItemUnitNorm", "ModelSequentialLayersItemDropout", "ModelSequentialLayersItemDropPath", "ModelSequentialLayersItemScale", "ModelSequentialLayersItemEmbedding", "ModelSequentialLayersItemEmbedCategories", "ModelSequentialLayersItemPositionEmbedding", "ModelSequentialLayersItemClassToken", "ModelSequentialLayersItemMaskTokens", "ModelSequentialLayersItemAttention", "ModelSequentialLayersItemLstm", "ModelSequentialLayersItemGru", "ModelSequentialLayersItemActivation", "ModelSequentialLayersItemRelu", "ModelSequentialLayersItemGelu", "ModelSequentialLayersItemGeluTanh", "ModelSequentialLayersItemQuickGelu", "ModelSequentialLayersItemSilu", "ModelSequentialLayersItemTanh", "ModelSequentialLayersItemSigmoid", "ModelSequentialLayersItemFlatten", "ModelSequentialLayersItemReshape", "ModelSequentialLayersItemTranspose", "ModelSequentialLayersItemPositions", "ModelSequentialLayersItemMeanPositions", "ModelSequentialLayersItemSelect", "ModelSequentialLayersItemSequential", "LayerConfigResidual", "LayerConfigRepeat", "LayerConfigParallel"]


class OptimizerSgd(TypedDict, total=False):
    """Stochastic gradient descent, optionally with momentum."""
    dampening: float
    """Dampening of new gradients in the momentum, from 0 to 1."""
    groups: List[OptimizerSgdGroupsItem]
    """Parameter groups with their own learning rate or weight decay."""
    kind: Literal['sgd']
    learning_rate: float
    """The learning rate, above 0."""
    moments: Literal['f32', 'bf16']
    """Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random."""
    momentum: float
    """The momentum, from 0 (none) to below 1."""
    nesterov: bool
    """Whether to use Nesterov momentum."""
    weight_decay: float
    """Weight decay, added to the gradient; 0 or more."""


class OptimizerSgdGroupsItem(TypedDict, total=False):
    """A parameter group in the manifest."""
    learning_rate_scale: float
    """Multiplier of the optimizer's learning rate for this group; 0 or more."""
    name: str
    """Unique name; `default` is the group of all other parameters."""
    parameters: List[str]
    """Names of the parameters; `*` matches any characters and `?` one, e.g. `fc1.*`. A parameter belongs to the
    first group that matches it."""
    weight_decay: Union[float, None]
    """Weight decay of this group, 0 or more. Default: the optimizer's."""


class OptimizerAdam(TypedDict, total=False):
    """Adam."""
    beta1: float
    """Decay rate of the moving average of gradients, from 0 to below 1."""
    beta2: float
    """Decay rate of the moving average of squared gradients, from 0 to below 1."""
    epsilon: float
    """Constant added to the denominator; above 0."""
    groups: List[OptimizerSgdGroupsItem]
    """Parameter groups with their own learning rate or weight decay."""
    kind: Literal['adam']
    learning_rate: float
    """The learning rate, above 0."""
    moments: Literal['f32', 'bf16']
    """Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random."""
    weight_decay: float
    """Weight decay, added to the gradient; 0 or more."""


class OptimizerAdamw(TypedDict, total=False):
    """Adam with decoupled weight decay."""
    beta1: float
    """Decay rate of the moving average of gradients, from 0 to below 1."""
    beta2: float
    """Decay rate of the moving average of squared gradients, from 0 to below 1."""
    epsilon: float
    """Constant added to the denominator; above 0."""
    groups: List[OptimizerSgdGroupsItem]
    """Parameter groups with their own learning rate or weight decay."""
    kind: Literal['adamw']
    learning_rate: float
    """The learning rate, above 0."""
    moments: Literal['f32', 'bf16']
    """Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random."""
    weight_decay: float
    """Weight decay, decoupled from the gradient; 0 or more."""


class OptimizerRmsprop(TypedDict, total=False):
    """RMSprop, optionally with momentum."""
    alpha: float
    """Decay rate of the moving average of squared gradients, from 0 to below 1."""
    centered: bool
    """Whether to normalise by the gradients' variance instead of their mean square."""
    epsilon: float
    """Constant added to the denominator; above 0."""
    groups: List[OptimizerSgdGroupsItem]
    """Parameter groups with their own learning rate or weight decay."""
    kind: Literal['rmsprop']
    learning_rate: float
    """The learning rate, above 0."""
    moments: Literal['f32', 'bf16']
    """Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random."""
    momentum: float
    """The momentum, from 0 (none) to below 1."""
    weight_decay: float
    """Weight decay, added to the gradient; 0 or more."""


class OptimizerLion(TypedDict, total=False):
    """Lion: steps of equal size, by the sign of a moving average."""
    beta1: float
    """Weight of the moving average in a step's direction, from 0 to below 1."""
    beta2: float
    """Decay rate of the moving average of gradients, from 0 to below 1."""
    groups: List[OptimizerSgdGroupsItem]
    """Parameter groups with their own learning rate or weight decay."""
    kind: Literal['lion']
    learning_rate: float
    """The learning rate, above 0."""
    moments: Literal['f32', 'bf16']
    """Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random."""
    weight_decay: float
    """Weight decay, decoupled from the gradient; 0 or more."""


class Train(TypedDict, total=False):
    """How long to train, and in which steps."""
    accumulate: int
    """Batches per update of the parameters; remaining batches at the end of an epoch make an update too."""
    allow_missing_gradients: List[str]
    """Names of parameters that may have no gradient. Any other parameter without one ends the run in its first
    iteration."""
    batch_size: int
    """Samples per training batch."""
    check_finite: bool
    """End the run at the first NaN or infinite training loss or gradient. It ends before that reaches a
    parameter, and reports the module where it arose. Costs one pass over the gradients."""
    epochs: int
    """Number of passes over the training data."""
    eval_batch_size: Union[int, None]
    """Samples per batch in validation and test. Default: as in training."""
    initial_validation: bool
    """Also validate before the first epoch."""
    limit_test: Union[int, None]
    """Test only on the samples of the first `limit_test` batches. Default: all."""
    limit_train: Union[int, None]
    """Train only on the samples of the first `limit_train` batches of the data. Default: all."""
    limit_val: Union[int, None]
    """Validate only on the samples of the first `limit_val` batches. Default: all."""
    loader_threads: int
    """Number of threads that prepare batches in the background; their number does not affect the order. With 0,
    training waits for each batch."""
    overfit: Union[int, None]
    """Train and validate on the samples of this many training batches, without augmentation or test. A model that
    can't memorise them points to a bug. Default: all the data."""
    prefetch: Union[int, None]
    """Maximum number of prepared batches waiting. Default: two per thread, or as many small ones as take 1
    MiB."""
    sampling: Literal['once', 'balanced']
    """How the samples of an epoch are drawn: each `once`, or `balanced`, as many of each class."""
    test: bool
    """Test after training, if there is test data."""
    validate_every: Union[int, TrainValidateEvery2]
    """When to validate: after every `validate_every` epochs and after the last one, 0 meaning never, or with
    `{'iterations': n}` after every n training batches and after the last epoch."""


class TrainValidateEvery2(TypedDict, total=False):
    """After a number of iterations."""
    iterations: int
    """Validate after each multiple of this many training batches of the run, once the update that contains it is
    finished, and after the last epoch."""


class Weights(TypedDict, total=False):
    """The initial weights. Default: drawn from the seed."""
    file: str
    """A safetensors file with tensors by name, a directory with such files and their index, as `transformers`
    writes it, a file of `PyTorch`'s, or the directory of a run's checkpoint."""
    rename: dict
    """Prefixes of names in the file, each with its replacement in the model, such as `{'backbone.': ''}`; the
    longest matching prefix applies, and `''` matches every name."""
    strict: bool
    """Whether every weight must be present, with no extra ones, but those of a new head. If false, matching
    weights are loaded and the rest is reported."""
