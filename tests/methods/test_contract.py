"""What the training loop needs from every method."""

from dataclasses import fields, replace
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from surelabel.config.methods import on_pixels
from surelabel.config.run import AVERAGING, Align, Optimizer, Selection
from surelabel.data.batch import Crops
from surelabel.methods.calibrators import CALIBRATORS
from surelabel.training import build
from surelabel.training.loop import training_step
from surelabel.training.state import TrainState
from surelabel.utils import devices
from surelabel.utils.rng import generator
from tests.helpers.runs import initial_state, loader_of

EARLY = Selection(warmup=2)  # within six steps
RULES = ("flexmatch", "adamatch", "debiaspl", "softmatch", "freematch", "finessl-margin", "dash", "mean-teacher")
LARS = Optimizer(lr=0.5, nesterov=False, weight_decay=1e-3, lars_trust=0.02, schedule="warmup-cosine", warmup=0.2)
# Every method in both forms of the pass; a teacher with each head, with and without PAWS; LARS.
CASES = [(method, {"forward": form}) for method in on_pixels() if "paws" not in method for form in ("split", "joint")]
CASES += [(method, {}) for method in ("fixmatch+ema", "bam-uda+swa", "paws", "paws+swa", "bam-paws", "bam-paws+ema")]
# Every calibrator in both forms; with a Bayesian head, or in its place; with a teacher.
CASES += [
    ("uda", {"calibrator": name, "forward": form})
    for name in CALIBRATORS
    if name != "none"
    for form in ("split", "joint")
]
CASES += [("bam-uda", {"calibrator": name}) for name in ("label-smoothing", "margin-penalty", "mixup")]
CASES += [("bam-uda", {"calibrator": "mc-dropout"}), ("bam-uda+ema", {"calibrator": "last-layer-ensemble"})]
CASES += [("supervised", {"calibrator": name}) for name in ("mc-dropout", "last-layer-ensemble")]
# And with what other methods have: rules on the labels, criteria, interpolated logits, alignment.
CASES += [
    (method, {"calibrator": name, "forward": form})
    for method in (*RULES, "remixmatch-align")
    for name, form in (("mc-dropout", "split"), ("mc-dropout", "joint"), ("last-layer-ensemble", "split"))
]
CASES += [("paws", {"optimizer": LARS}), ("bam-paws+ema", {"optimizer": LARS})]
# What a state can hold: an average, a queue of quantiles, momentum of LARS, a support, and a teacher's average.
RESUMED = [("fixmatch", {}), ("bam-uda", {"forward": "joint"}), ("pseudo-label+swa", {}), CASES[-1]]
# And what rules and alignments remember: moving means, the last class of each sample, a queue of predictions.
RESUMED += [(method, {"selection": EARLY}) for name in RULES for method in (name, f"bam-{name}")]
RESUMED += [("flexmatch+ema", {"selection": EARLY}), ("bam-freematch+swa", {})]
RESUMED += [("bam-fixmatch", {"align": Align("sinkhorn", queue=100)}), ("uda", {"align": Align("mean", "labels")})]
RESUMED += [case for case in CASES if "calibrator" in case[1]]


def case_id(case):
    return case[0] + "".join(f"-{value if isinstance(value, str) else key}" for key, value in case[1].items())


@pytest.fixture(params=CASES, ids=case_id)
def parts(request, tiny, digits_data):
    name, settings = request.param
    config = build.resolve(replace(tiny, method=name, **settings))
    make = partial(initial_state, config, digits_data)
    return config, build.build_method(config), loader_of(config, digits_data), make


def train(method, loader, state: TrainState, steps: int) -> None:
    for _ in range(steps):
        training_step(method, state.network, state, loader(state.step), torch.autograd.backward)


def test_method_loss_reaches_backbone_and_head(parts):
    _, method, loader, make = parts
    state = make()
    losses, _ = method.loss(state.network, state.teacher, loader(0), state.selection, 0)
    losses.total.backward()
    assert torch.isfinite(losses.total)
    for parameter in state.network.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
    assert all(parameter.grad.abs().sum() > 0 for parameter in state.network.head.parameters())
    assert state.network.backbone.stem.weight.grad.abs().sum() > 0


class NoDouble(TorchDispatchMode):
    """Raises if anything is computed in double precision, as a Mac's GPU does."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for part in made if isinstance(made, tuple | list) else [made]:
            assert not (isinstance(part, torch.Tensor) and part.dtype == torch.float64), func
        return made


def test_method_runs_without_double_precision(parts, monkeypatch):
    _, method, loader, make = parts
    state, batch = make(), loader(0)
    monkeypatch.setattr(devices, "NO_DOUBLE", {"cpu"})
    with NoDouble():
        training_step(method, state.network, state, batch, torch.autograd.backward)
        state.network.predict(batch.large if isinstance(batch, Crops) else batch.labelled, generator(0, "evaluation"))


@pytest.mark.parametrize("parts", RESUMED, indirect=True, ids=case_id)
def test_method_resumes_bit_for_bit(parts, tmp_path):
    _, method, loader, make = parts
    whole = make()
    train(method, loader, whole, 6)
    half = make()
    train(method, loader, half, 3)
    torch.save(half.state_dict(), tmp_path / "half.pt")
    resumed = make()
    resumed.load_state_dict(torch.load(tmp_path / "half.pt", weights_only=True))
    train(method, loader, resumed, 3)
    assert equal(whole.state_dict(), resumed.state_dict())


def equal(mine, theirs) -> bool:
    if isinstance(mine, torch.Tensor):
        return torch.equal(mine, theirs)
    if isinstance(mine, dict):
        return mine.keys() == theirs.keys() and all(equal(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, list):
        return len(mine) == len(theirs) and all(map(equal, mine, theirs))
    return mine == theirs


def test_weight_decay_skips_only_biases_and_norms(parts):
    config, _, _, make = parts
    state = make()
    decayed, spared, *bayesian = [group for optimizer in state.optimizers for group in optimizer.param_groups]
    assert decayed["weight_decay"] == config.optimizer.weight_decay
    assert spared["weight_decay"] == 0
    assert (decayed.get("trust", 0), spared.get("trust", 0)) == (config.optimizer.lars_trust, 0)
    names = {id(parameter): name for name, parameter in state.network.named_parameters()}
    groups = (decayed, spared, *bayesian)
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(names)
    small = {id(parameter) for parameter in state.network.parameters() if parameter.ndim == 1}
    assert all(id(p) in small or names[id(p)].endswith("_rho") for p in spared["params"])
    assert all(id(p) not in small and "_rho" not in names[id(p)] for p in decayed["params"])
    has_gaussian_classifier = config.method.startswith("bam-") and config.base != "bam-paws"
    assert len(bayesian) == (has_gaussian_classifier and config.calibrator not in AVERAGING)
    for group in bayesian:
        assert {names[id(p)].split(".")[0] for p in group["params"]} == {"head"}
        assert (group["lr"], group["weight_decay"]) == (0.01, 0)


def test_loader_batch_depends_only_on_the_step(parts):
    _, _, loader, _ = parts
    first, again, later = loader(3), loader(3), loader(4)
    for field in fields(first):
        mine = getattr(first, field.name)
        if isinstance(mine, torch.Tensor):
            assert torch.equal(mine, getattr(again, field.name))
            assert field.name in ("labels", "hidden") or not torch.equal(mine, getattr(later, field.name))
