"""All studies by name."""

from surelabel.studies import ablations, benchmark_studies, trend_studies
from surelabel.studies.plan import Study
from surelabel.utils.errors import UserError, suggestion

# Without runs.
STATIC = (
    Study("schedules", "γ of PAWS+EMA through training", "Figure 7 (sfig:paws_ablate_mom)"),
    Study("lt-data", "the class sizes of long-tailed CIFAR", "Table 5 (tab:lt_data_stats)"),
    Study("phc-data", "crystals, a density of states, the sizes of the classes", "Figure 5 (suppfig:phc)"),
)

STUDIES: dict[str, Study] = {
    study.name: study for study in (*benchmark_studies.STUDIES, *ablations.STUDIES, *trend_studies.STUDIES, *STATIC)
}


def find(name: str) -> Study:
    if name not in STUDIES:
        raise UserError(f"there is no study {name!r}.{suggestion(name, STUDIES)}")
    return STUDIES[name]
