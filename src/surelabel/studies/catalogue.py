"""Every study by its name."""

from surelabel.studies import ablations, benchmark_studies
from surelabel.studies import trend_studies as course_studies
from surelabel.studies.plan import Study
from surelabel.utils.errors import UserError, suggestion

# Without runs: a table or pictures of what is known beforehand.
STILL = (
    Study("schedules", "γ of PAWS+EMA through training", "Figure 7 (sfig:paws_ablate_mom)"),
    Study("lt-data", "the class sizes of long-tailed CIFAR", "Table 5 (tab:lt_data_stats)"),
    Study("phc-data", "crystals, a density of states, the sizes of the classes", "Figure 5 (suppfig:phc)"),
)

STUDIES: dict[str, Study] = {
    study.name: study for study in (*benchmark_studies.STUDIES, *ablations.STUDIES, *course_studies.STUDIES, *STILL)
}


def find(name: str) -> Study:
    if name not in STUDIES:
        raise UserError(
            f"there is no study {name!r}.{suggestion(name, STUDIES)} `surelabel study --list` explains them"
        )
    return STUDIES[name]
